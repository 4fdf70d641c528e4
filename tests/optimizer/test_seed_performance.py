"""The founding articles' statements about engines, speed and cost, each with its number.

Where a statement is right it is reproduced; where it is wrong or stale, the test holds the right
answer. T1 checks are within 0.5 %; throughput within 15 % (dense).
"""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest

from core.gpus import gpu
from optimizer.advice_question import Goal, Question
from optimizer.advise import advise
from optimizer.engine import (
    EngineChoice,
    EngineQuestion,
    Objective,
    choice_from_difference,
    choose_engine,
)
from optimizer.engine_evidence import EVIDENCE, Evidence
from optimizer.engine_flags import check_command, flags
from optimizer.engine_rules import FEATURES, platform
from optimizer.evidence import Point, problem
from optimizer.launch import LaunchRequest, sglang_command, vllm_command
from optimizer.market import SupplyOption
from optimizer.models import find
from optimizer.performance import Replica, Traffic
from optimizer.prefix import (
    OVERLAP_CHOICES,
    conversation_share,
    explain,
    hit_rate,
    most_gain,
    reused_tokens,
)
from optimizer.roofline import estimate, ridge_batch, roofline_tokens_per_s
from tests.optimizer.fleets import AS_OF

TODAY = date(2026, 12, 1)
LLAMA_8B = find("Llama-3.1-8B-Instruct")
LLAMA_70B = find("Llama-3.3-70B-Instruct")
QWEN_7B = find("Qwen2.5-7B-Instruct")
CODER_32B = find("Qwen2.5-Coder-32B-Instruct")
T1 = 0.005
BY_KEY = {row.key: row for row in EVIDENCE}


def asked(**changes: Any) -> EngineQuestion:
    values: dict[str, Any] = {
        "model": LLAMA_8B,
        "gpu": gpu("h100-sxm"),
        "overlap": 0.0,
        "users": 32,
        "prefill_share": 0.4,
        "input_tokens": 2000,
        "output_tokens": 250,
        "today": TODAY,
    }
    return EngineQuestion(**(values | changes))


def choose(**changes: Any) -> EngineChoice:
    return choose_engine(asked(**changes))


def ratio(key: str) -> float:
    found = BY_KEY[key].ratio
    assert found is not None
    return found


def speed(model: str, card: str, *, users: int = 1, tp: int = 1, **changes: Any) -> float:
    replica = Replica(model=find(model), gpu=gpu(card), tensor_parallel=tp, **changes)
    traffic = Traffic(input_tokens=200, output_tokens=200, users=users)
    return estimate(replica, traffic).output_tokens_per_s / users


# ---- A: caches and engines --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "large", "small", "said"),
    [
        ("A1", 440, 38, 11.58), ("A2", 480, 92, 5.22), ("A3", 92, 38, 2.42),
        ("A13", 78.6, 41.2, 1.91), ("A14", 380, 85, 4.47), ("A15", 1250, 280, 4.46),
        ("A16", 5430, 3120, 1.74), ("A17", 2408, 877, 2.75), ("A21", 23_500, 16_800, 1.40),
        ("A22", 7.8, 1.8, 4.33),
    ],
)  # fmt: skip
def test_ratios_are_as_divided_not_as_printed(
    number: str, large: float, small: float, said: float
) -> None:
    assert large / small == pytest.approx(said, rel=T1), number


@pytest.mark.parametrize(
    ("number", "key", "said"),
    [("A3", "agent-8k", 2.42), ("A16", "overlap-75", 1.74), ("A21", "qwen-short", 1.40)],
)
def test_the_evidence_rows_hold_the_articles_figures(number: str, key: str, said: float) -> None:
    assert ratio(key) == pytest.approx(said, rel=T1), number


def test_a4_the_cold_prefill_of_the_agent_is_above_one_h100() -> None:
    point = Point(
        model=CODER_32B.id, weights="awq", gpu="h100-sxm", gpu_count=1, engine="sglang",
        engine_version="0", load="users", input_tokens=8000, output_tokens=1, users=1,
        output_tokens_per_s=1 / 0.440, ttft_ms=440.0, tpot_ms=1.0, source="A1", date="2026-10-23",
    )  # fmt: skip
    assert "fast" in problem(point) or "roofline" in problem(point)
    assert "exceeds the FLOP/s of one H100" in BY_KEY["agent-8k"].trouble


def test_a5_old_versions_are_called_stale_and_lower_the_confidence() -> None:
    old = BY_KEY["agent-8k"]
    assert old.is_stale(TODAY)
    assert "stale evidence" in old.line(TODAY)
    fresh = choose(overlap=0.75, objective=Objective.TTFT_P99, today=date(2024, 10, 1))
    now = choose(overlap=0.75, objective=Objective.TTFT_P99, today=date(2029, 1, 1))
    steps = ["high", "medium", "medium-low", "low"]
    assert steps.index(now.confidence) == steps.index(fresh.confidence) + 1


def test_a6_a20_without_overlap_the_cache_makes_no_difference() -> None:
    choice = choose(overlap=0.0)
    assert choice.choice == "tie"
    assert "no engine difference from prefix cache" in choice.reasons[0]
    for engine in ("vllm", "sglang"):
        assert hit_rate(engine, shared=0, prompt=4096) == 0


def test_a7_g6_the_data_structures_are_named() -> None:
    assert "block hashes" in explain("vllm")
    assert "radix tree" in explain("sglang")


@pytest.mark.parametrize(("shared", "kept"), [(3072, 3072), (3080, 3072), (15, 0)])
def test_a8_vllm_keeps_whole_blocks_of_16(shared: int, kept: int) -> None:
    assert reused_tokens("vllm", shared, 10_000) == kept


@pytest.mark.parametrize("shared", [1, 15, 16, 17, 3071, 3079])
def test_a9_a10_blocks_lose_at_most_15_tokens_and_pages_round_too(shared: int) -> None:
    assert 0 <= shared - reused_tokens("vllm", shared, 10_000) <= 15
    assert reused_tokens("sglang", shared, 10_000) == shared
    assert reused_tokens("sglang", shared, 10_000, granularity=64) == shared // 64 * 64


def test_a11_g7_the_second_turn_of_an_agent_shares_97_7_percent() -> None:
    assert conversation_share(8000, 200, 300, 2) == pytest.approx(8500 / 8700, rel=1e-12)
    assert conversation_share(8000, 200, 300, 2) == pytest.approx(0.977, rel=T1)


def test_a12_a_warm_first_token_is_compute_plus_a_fixed_time() -> None:
    replica = Replica(model=CODER_32B, gpu=gpu("h100-sxm"), weights="awq")
    warm = estimate(replica, Traffic(input_tokens=8700, output_tokens=100, users=1, hit=0.977))
    assert 0.040 <= warm.ttft_seconds <= 0.120


def test_a13_no_engine_hits_more_than_is_shared() -> None:
    for engine in ("vllm", "sglang"):
        assert hit_rate(engine, shared=3072, prompt=4096) <= 0.75
    assert "above the stated overlap" in BY_KEY["overlap-75"].trouble


def test_a18_the_tie_row_serves_the_tie_and_not_the_calibration() -> None:
    assert choice_from_difference(1850, 1920) == "tie"
    replica = Replica(model=LLAMA_70B, gpu=gpu("h100-sxm"), weights="fp8")
    for users, claimed in ((1, 120.0), (10, 650.0)):
        traffic = Traffic(input_tokens=512, output_tokens=256, users=users)
        assert claimed > roofline_tokens_per_s(replica, traffic), "above the roofline"
    assert "above the roofline" in BY_KEY["spheron"].trouble


@pytest.mark.parametrize(
    ("difference", "label"), [(1.038, "tie"), (1.0999, "tie"), (1.11, "vllm"), (1.4, "vllm")]
)
def test_a18_below_a_tenth_is_a_tie(difference: float, label: str) -> None:
    assert choice_from_difference(1000 * difference, 1000) == label


def test_a21_contradicting_evidence_is_shown_and_confidence_is_low() -> None:
    choice = choose(model=QWEN_7B, users=64, input_tokens=128, objective=Objective.THROUGHPUT)
    assert (choice.choice, choice.confidence) == ("vllm", "low")
    assert any("16,200" in line for line in choice.counter_evidence)


def test_a23_a40_another_objective_may_give_another_answer() -> None:
    same = {"overlap": 0.6, "users": 64}
    assert choose(**same, objective=Objective.TTFT_P99).choice == "sglang"
    assert choose(**same, objective=Objective.THROUGHPUT).choice == "tie"


@pytest.mark.parametrize(
    ("users", "label"), [(1, "sglang"), (4, "sglang"), (5, "tie"), (6, "vllm"), (8, "vllm")]
)
def test_a24_a36_the_dgx_spark_crossover_holds_for_gb10_alone(users: int, label: str) -> None:
    choice = choose(gpu=gpu("gb10"), users=users)
    assert choice.choice == label
    assert any("GB10" in reason and "Verify" in reason for reason in choice.reasons)
    assert choose(gpu=gpu("h100-sxm"), users=users).rule != "R8"


LABELS = [
    ("A28", {"overlap": 0.9, "users": 16, "objective": Objective.TTFT_P50}, "sglang"),
    ("A29", {"overlap": 0.75, "users": 64, "objective": Objective.TTFT_P50}, "sglang"),
    ("A30", {"model": LLAMA_70B, "users": 50}, "tie"),
    ("A31", {"model": QWEN_7B, "users": 64, "input_tokens": 128,
             "objective": Objective.THROUGHPUT}, "vllm"),
    ("A27", {"overlap": 0.05, "users": 6, "input_tokens": 512,
             "objective": Objective.THROUGHPUT}, "vllm"),
    ("A32", {"gpu": gpu("gb10"), "users": 8, "input_tokens": 128}, "vllm"),
    ("A33", {"input_tokens": 7000, "users": 4}, "tie"),
    ("A35", {"overlap": 0.75, "objective": Objective.TTFT_P99}, "sglang"),
    ("G11", {"users": 512}, "tie"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "changes", "label"), LABELS, ids=[row[0] for row in LABELS])
def test_the_articles_table_of_engines(number: str, changes: dict[str, Any], label: str) -> None:
    assert choose(**changes).choice == label, number


def test_a29_a32_overlap_is_asked_before_concurrency() -> None:
    shared = choose(gpu=gpu("gb10"), users=64, overlap=0.75, objective=Objective.TTFT_P99)
    assert shared.choice == "sglang"


def test_a34_three_choices_stand_for_an_overlap() -> None:
    assert list(OVERLAP_CHOICES.values()) == [0.0, 0.5, 0.75]


def test_a37_prompts_decide_a_long_prompt_and_hardly_touch_a_long_answer() -> None:
    replica = Replica(model=LLAMA_8B, gpu=gpu("h100-sxm"))
    short = estimate(replica, Traffic(input_tokens=100, output_tokens=2000, users=32))
    long = estimate(replica, Traffic(input_tokens=8000, output_tokens=200, users=32))
    assert short.prefill_share < 0.05
    assert long.prefill_share > 0.5
    choice = choose(overlap=0.75, prefill_share=short.prefill_share)
    assert "irrelevant" in choice.reasons[0]


def test_a25_a38_amdahl_bounds_what_a_cache_can_save() -> None:
    assert most_gain(0.2) == pytest.approx(0.25)


def test_a39_the_objective_is_one_of_five() -> None:
    assert {item.value for item in Objective} == {
        "ttft_p50", "ttft_p99", "tpot", "throughput", "cost",
    }  # fmt: skip


def test_a42_g23_g24_the_answer_ends_with_how_to_measure() -> None:
    text = "\n".join(choose(overlap=0.6).measure_with)
    for part in ("vllm bench serve", "sglang.bench_serving", "vllm:prefix_cache_hits",
                 "vllm:prefix_cache_queries", "sglang:cache_hit_rate", "--enable-cache-report",
                 "--enable-metrics"):  # fmt: skip
        assert part in text
    for line in choose(overlap=0.6, users=24, input_tokens=1500).measure_with:
        if line.startswith(("vllm bench", "python -m")):
            assert check_command(line) == ()
            assert "1500" in line or "--prefix-repetition" in line or "--gsp" in line
            assert "24" in line


# ---- B, G: launch commands --------------------------------------------------------------------


def test_b4_b6_the_commands_of_an_fp8_cache_are_valid_and_copyable() -> None:
    request = LaunchRequest(model=LLAMA_8B, gpu=gpu("rtx-4090"), kv="fp8", context=65_536)
    plain = vllm_command(request).plain
    assert plain.startswith("vllm serve meta-llama/Llama-3.1-8B-Instruct")
    assert "--kv-cache-dtype fp8" in plain
    assert "--max-model-len 65536" in plain
    assert plain.isascii()
    assert check_command(plain) == ()
    assert "fp8_e4m3" in flags("vllm")["--kv-cache-dtype"].note


def test_b9_e5m2_is_never_recommended() -> None:
    request = LaunchRequest(model=LLAMA_8B, gpu=gpu("a100-80gb-sxm"), kv="fp8")
    for command in (vllm_command(request), sglang_command(request)):
        assert "e5m2" not in command.plain + command.container


def test_b21_b23_an_fp8_cache_comes_with_its_cautions() -> None:
    request = LaunchRequest(model=LLAMA_8B, gpu=gpu("h100-sxm"), kv="fp8")
    text = " ".join(vllm_command(request).warnings)
    for part in ("scale 1.0", "calibrate", "retrieval"):
        assert part in text


def test_g12_sglang_has_no_int8_cache() -> None:
    assert "int8_per_token_head" in flags("vllm")["--kv-cache-dtype"].choices
    assert not any("int8" in c for c in flags("sglang")["--kv-cache-dtype"].choices)
    assert FEATURES["int8-kv"] == ("vllm",)


def test_g26_sglang_gets_its_own_name_of_fp8() -> None:
    request = LaunchRequest(model=LLAMA_8B, gpu=gpu("h100-sxm"), kv="fp8")
    assert "--kv-cache-dtype fp8_e4m3" in sglang_command(request).plain
    assert check_command("sglang serve --model-path x --kv-cache-dtype fp8") != ()


def test_g18_g21_dashes_of_a_word_processor_are_refused_and_images_are_pinned() -> None:
    assert "not ASCII" in check_command("vllm serve x \u2013\u2013tensor-parallel-size 8")[0]
    assert "not ASCII" in check_command("vllm serve \u201cx\u201d")[0]
    request = LaunchRequest(model=LLAMA_70B, gpu=gpu("h100-sxm"), weights="fp8", tensor_parallel=8)
    for command in (vllm_command(request), sglang_command(request)):
        assert "latest" not in command.container
        assert command.container.isascii()
        assert check_command(command.plain) == ()


def test_g20_the_articles_flags_are_accepted() -> None:
    line = (
        "vllm serve m --tensor-parallel-size 8 --gpu-memory-utilization 0.90 --max-model-len 8192"
    )
    assert check_command(line) == ()
    assert flags("vllm")["--gpu-memory-utilization"].default == "0.92"
    assert check_command("sglang serve --model-path m --tp-size 8 --port 3000"
                         " --mem-fraction-static 0.85") == ()  # fmt: skip


def test_g22_g27_measuring_needs_the_right_tools() -> None:
    from optimizer.measure import ALSO

    text = " ".join(ALSO)
    assert "iperf measures networks" in text
    assert "DRAM_ACTIVE" in text


@pytest.mark.parametrize(
    ("number", "card", "engines"),
    [
        ("G14", "mi300x", {"vllm", "sglang"}),
        ("G32", "gaudi3", {"vllm"}),
        ("G17", "h100-sxm", {"vllm", "sglang"}),
    ],
)
def test_platforms(number: str, card: str, engines: set[str]) -> None:
    assert set(platform(gpu(card))) == engines, number


@pytest.mark.parametrize("card", ["t4", "v100-32gb"])
def test_g16_cards_before_ampere_get_vllm(card: str) -> None:
    assert choose(gpu=gpu(card)).choice == "vllm"


def test_g17_g28_a_mixed_fleet_gets_vllm_and_shared_prompts_sglang() -> None:
    assert choose(vendors=("NVIDIA", "AMD")).choice == "vllm"
    assert choose(overlap=0.9, objective=Objective.TTFT_P99).choice == "sglang"


def test_g9_g29_both_speak_openai_and_structured_output() -> None:
    assert FEATURES["structured-output"] == FEATURES["openai-api"] == ("vllm", "sglang")
    assert FEATURES["frontend-language"] == ("sglang",)
    assert choose(needs=("frontend-language",)).choice == "sglang"


# ---- D, E, G: speed and money -----------------------------------------------------------------


def test_g1_decoding_is_bound_by_bandwidth_below_about_295_sequences() -> None:
    replica = Replica(model=LLAMA_70B, gpu=gpu("h100-sxm"), tensor_parallel=4)
    from optimizer.performance import UPPER_BOUND

    assert ridge_batch(replica, UPPER_BOUND) == pytest.approx(295, rel=0.03)
    assert 120 < ridge_batch(replica) < 295
    found = estimate(replica, Traffic(input_tokens=100, output_tokens=100, users=32))
    assert found.bound == "bandwidth"


@pytest.mark.parametrize(("context", "new"), [(4000, 5), (4096, 100), (15, 10)])
def test_g4_g5_only_the_suffix_and_part_of_a_block_are_computed_again(
    context: int, new: int
) -> None:
    kept = reused_tokens("vllm", context, context + new)
    assert context + new - kept < new + 16


def test_g8_a_cached_first_token_of_a_70b_is_not_single_digit_milliseconds() -> None:
    replica = Replica(model=LLAMA_70B, gpu=gpu("h100-sxm"), weights="fp8", tensor_parallel=8)
    warm = estimate(replica, Traffic(input_tokens=8000, output_tokens=100, users=1, hit=0.99))
    assert 0.025 <= warm.ttft_seconds <= 0.090


def test_g19_more_cards_decode_faster_but_cost_more_a_token() -> None:
    each = {
        tp: speed("Llama-3.3-70B-Instruct", "h100-sxm", users=4, tp=tp, weights="fp8")
        for tp in (2, 4, 8)
    }
    # Measured at 4 users: 17.4, 11.8 and 9.1 ms per token.
    for tp, milliseconds in ((2, 17.4), (4, 11.8), (8, 9.1)):
        assert 1000 / each[tp] == pytest.approx(milliseconds, rel=0.15)
    assert each[8] / 8 < each[4] / 4 < each[2] / 2


def test_e14_a_4090_serves_a_7b_in_bf16_at_50_to_55_tokens_a_second_not_60() -> None:
    replica = Replica(model=QWEN_7B, gpu=gpu("rtx-4090"))
    traffic = Traffic(input_tokens=200, output_tokens=200, users=1)
    # (15.23 - 1.09) GB at 1,008 GB/s is 14.0 ms: 71 tokens a second and no more.
    assert roofline_tokens_per_s(replica, traffic) == pytest.approx(71, rel=0.02)
    assert estimate(replica, traffic).output_tokens_per_s == pytest.approx(53, rel=0.15)
    assert speed("Llama-3.1-8B-Instruct", "rtx-4090") == pytest.approx(50, rel=0.15)
    assert speed("Qwen2.5-7B-Instruct", "rtx-4090", weights="awq") > 100


def test_e15_five_users_hardly_slow_each_other() -> None:
    one = speed("Llama-3.1-8B-Instruct", "rtx-4090", users=1)
    five = speed("Llama-3.1-8B-Instruct", "rtx-4090", users=5)
    assert one / five - 1 < 0.20
    replica = Replica(model=LLAMA_8B, gpu=gpu("rtx-4090"))
    alone, together = (
        estimate(replica, Traffic(input_tokens=1, output_tokens=200, users=n)).decode_seconds
        for n in (1, 5)
    )
    assert together / alone - 1 < 0.05, "decoding alone: one read of the weights serves all"


def test_b25_e23_ratios_of_prices() -> None:
    assert pytest.approx(0.233, rel=T1) == 0.35 / 1.50
    assert pytest.approx(7.14, rel=T1) == 2.50 / 0.35


def offers() -> list[SupplyOption]:
    def one(number: int, name: str, usd: str) -> SupplyOption:
        card = gpu(name)
        return SupplyOption(
            offer_id=number, provider=f"p{number}", region="r", instance_type=name, gpu=name,
            gpu_count=Decimal(1), purchase_option="on_demand", vram_gib=card.vram_gb,
            usd_per_instance_hour=Decimal(usd), vram_usable_gib=card.vram_usable_gib,
            price_as_of=AS_OF, source_url="https://prices.example",
        )  # fmt: skip

    return [one(1, "rtx-4090", "0.69"), one(2, "l4", "0.70"), one(3, "h100-sxm", "2.50"),
            one(4, "a100-80gb-sxm", "1.50")]  # fmt: skip


def test_e1_e13_f9_f12_a_small_chatbot_gets_a_small_card() -> None:
    question = Question(model=QWEN_7B, today=TODAY, context=4096, concurrency=5, requests_per_s=0.5)
    best = advise(question, offers(), what_if=False).cards[0].priced
    assert best.option.gpu in {"rtx-4090", "l4"}


def test_e16_batches_rank_by_the_price_of_tokens_not_of_hours() -> None:
    question = Question(model=LLAMA_8B, today=TODAY, context=2048, concurrency=128, goal=Goal.BATCH)
    ranking = advise(question, offers(), what_if=False).ranking.priced
    million = [item.usd_per_million for item in ranking]
    assert million == sorted(million)
    assert ranking[0].option.gpu == "h100-sxm", "the dearest hour has the cheapest token"


def test_e25_at_least_three_options_are_ranked() -> None:
    question = Question(model=LLAMA_8B, today=TODAY, context=4096, concurrency=4)
    assert len({i.option.gpu for i in advise(question, offers()).ranking.priced}) >= 3


def test_g33_first_tokens_that_are_late_ask_for_the_cache_before_more_cards() -> None:
    choice = choose(overlap=0.8, objective=Objective.TTFT_P99)
    assert any("cached prefix" in reason for reason in choice.reasons)


def test_evidence_is_dated_and_sourced() -> None:
    for row in EVIDENCE:
        assert isinstance(row, Evidence)
        assert row.source
        assert row.hardware
        assert row.favours in {"vllm", "sglang", "tie", "both"}
