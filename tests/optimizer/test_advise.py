"""The advisor as a whole: laws of its ranking, and answers checked by hand."""

from __future__ import annotations

import dataclasses
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core import gpus
from core.errors import InputError, PlanInfeasible
from core.units import GIB
from optimizer import models
from optimizer.advice_cards import recommended
from optimizer.advice_changes import shape
from optimizer.advice_json import to_json
from optimizer.advice_pricing import Priced
from optimizer.advice_question import Goal, Question
from optimizer.advise import Advice, advise
from optimizer.kernels import lacks_kernel
from optimizer.market import SupplyOption
from optimizer.memory import Verdict
from tests.optimizer.fleets import AS_OF

TODAY = date(2026, 12, 1)
LLAMA = models.find("meta-llama/Llama-3.1-8B-Instruct")
BIG = models.find("meta-llama/Llama-3.3-70B-Instruct")


def offer(number: int, gpu: str, usd: str, count: int = 1, **changes: Any) -> SupplyOption:
    card = gpus.gpu(gpu)
    values: dict[str, Any] = {
        "offer_id": number,
        "provider": f"p{number % 3}",
        "region": "r",
        "instance_type": f"{count}x-{gpu}",
        "gpu": gpu,
        "gpu_count": Decimal(count),
        "purchase_option": "on_demand",
        "usd_per_instance_hour": Decimal(usd),
        "vram_gib": card.vram_gb,
        "vram_usable_gib": card.vram_usable_gib,
        "price_as_of": AS_OF,
        "source_url": "https://prices.example",
        "hazard_basis": "on-demand: taken as not preempted",
    }
    if changes.get("purchase_option") == "spot":
        values |= {"hazard_per_hour": 0.4, "drought_hours": 1.3, "hazard_basis": "prior: test"}
    return SupplyOption(**{**values, **changes})


MARKET = [
    offer(1, "l4", "0.70"),
    offer(2, "l4", "1.30", 2),
    offer(3, "l40s", "0.90"),
    offer(4, "l40s", "3.60", 4),
    offer(5, "a100-80gb-sxm", "1.60"),
    offer(6, "a100-80gb-sxm", "12.0", 8),
    offer(7, "h100-sxm", "2.60"),
    offer(8, "h100-sxm", "20.0", 8),
    offer(9, "h100-sxm", "2.40"),
    offer(10, "h100-sxm", "1.10", purchase_option="spot"),
    offer(11, "l40s", "0.35", purchase_option="spot"),
    offer(12, "b200", "4.20"),
    offer(13, "b200", "30.0", 8),
]


def asked(**changes: Any) -> Question:
    values: dict[str, Any] = {"model": LLAMA, "today": TODAY}
    return Question(**(values | changes))


def answer(question: Question, market: list[SupplyOption] | None = None) -> Advice:
    return advise(question, MARKET if market is None else market, what_if=False)


def cheapest(question: Question) -> Decimal | None:
    try:
        found = answer(question)
    except PlanInfeasible:
        return None
    return found.cards[0].priced.usd_per_million if found.cards else None


# --- by hand -----------------------------------------------------------------------------------


def test_memory_of_llama_8b_is_as_worked_by_hand() -> None:
    # 8.03e9 parameters x 2 bytes = 16.06 GB = 14.96 GiB; cache 2 x 32 layers x 8 heads x 128 x 2
    # bytes = 131,072 bytes a token; 10 requests of 8,192 tokens = 10 GiB.
    memory = to_json(
        answer(asked(weights="bf16", context=8192, concurrency=10)),
        snapshot_id="x", prices_as_of=AS_OF,
    )["memory"]  # fmt: skip
    assert memory["weights_gib"] == pytest.approx(14.96, abs=0.01)
    assert memory["kv_bytes_per_token"] == 131_072
    assert memory["kv_cache_gib"] == 10.0
    assert memory["total_gib"] == pytest.approx(
        memory["weights_gib"] + memory["kv_cache_gib"] + memory["overhead_gib"], abs=0.002
    )
    each = memory["per_gpu"]
    parts = ("weights_gib", "kv_cache_gib", "overhead_gib", "free_gib", "outside_budget_gib")
    assert sum(each[part] for part in parts) == pytest.approx(each["usable_gib"], abs=0.01)


def test_of_a_batch_a_token_costs_the_hour_over_all_that_a_replica_serves() -> None:
    found = answer(asked(spot_ok=False, gpus=("l40s",), goal=Goal.BATCH))
    item = found.cards[0].priced
    candidate = item.candidate
    per_hour = candidate.requests_per_s * 3600 * (1000 + 250)
    assert float(item.usd_per_million) == pytest.approx(0.90 / per_hour * 1e6, rel=1e-6)
    assert item.cost == item.full_cost


def test_of_a_chat_a_token_costs_the_hour_over_what_so_many_users_send() -> None:
    found = answer(asked(spot_ok=False, gpus=("l40s",)))
    item = found.cards[0].priced
    # 16 users, each request 3 s + 250 tokens x 60 ms = 18 s: 16 / 18 requests a second.
    per_hour = 16 / 18 * 3600 * (1000 + 250)
    assert item.needed == 1
    assert float(item.usd_per_million) == pytest.approx(0.90 / per_hour * 1e6, rel=1e-6)
    full = item.candidate.requests_per_s * 3600 * (1000 + 250)
    assert float(item.full_cost.total) == pytest.approx(0.90 / full * 1e6, rel=1e-6)


def test_a_fleet_that_shares_its_traffic_prices_full_replicas() -> None:
    found = answer(asked(spot_ok=False, gpus=("l40s",), always_full=True))
    item = found.cards[0].priced
    assert item.cost == item.full_cost


def test_asked_traffic_takes_whole_replicas_and_is_billed_for_them() -> None:
    found = answer(asked(spot_ok=False, gpus=("l40s",), requests_per_s=10.0))
    item = found.cards[0].priced
    rate = item.candidate.requests_per_s
    assert (item.needed - 1) * rate < 10 <= item.needed * rate * (1 + 1e-9)
    assert item.usd_per_month == Decimal("0.90") * item.needed * 730
    tokens = 10 * 1250 * 3600
    assert float(item.usd_per_million) == pytest.approx(0.90 * item.needed / tokens * 1e6, rel=1e-6)


def test_spot_is_charged_per_hour_that_serves() -> None:
    found = answer(asked(gpus=("h100-sxm",)))
    (spot,) = [item for item in found.ranking.priced if item.option.is_spot]
    hours = spot.candidate.load.p50_s / 3600
    # Of an hour up exp(-0.4 R) serves, so a serving hour costs 1.10 x exp(0.4 R).
    assert float(spot.usd_per_replica_hour) == pytest.approx(1.10 * 2.718281828 ** (0.4 * hours))


def test_an_instance_of_eight_cards_serves_eight_replicas() -> None:
    found = answer(asked(gpus=("h100-sxm",), spot_ok=False))
    by_offer = {item.option.offer_id: item for item in found.ranking.priced}
    eight = [i for i in found.ranking.priced if i.option.offer_id == 8]
    assert by_offer[9].usd_per_replica_hour == Decimal("2.40")
    assert {(i.candidate.gpu_count, i.replicas) for i in eight} >= {(1, 8)}


# --- what is recommended -----------------------------------------------------------------------


def test_the_cards_are_what_they_say() -> None:
    found = answer(asked())
    cards = {card.kind: card.priced for card in found.cards}
    assert cards["cheapest"].usd_per_million == min(
        item.usd_per_million for item in found.ranking.priced
    )
    assert cards["balanced"].candidate.memory.verdict is Verdict.FITS
    assert not cards["safest"].option.is_spot
    assert cards["safest"].candidate.memory.verdict is Verdict.FITS


def test_without_offers_the_answer_says_what_fits_and_that_nothing_is_priced() -> None:
    found = answer(asked(), [])
    assert found.cards == ()
    assert found.fits.fits
    assert found.launch
    assert "no current offer of a card that fits: nothing is priced" in found.warnings


def test_judging_only_promising_groups_finds_the_same_cheapest_as_judging_all() -> None:
    for question in (asked(), asked(model=BIG, weights="fp8"), asked(goal=Goal.BATCH)):
        found = answer(question)
        every = [
            answer(dataclasses.replace(question, gpus=(gpu,))).cards
            for gpu in {option.gpu for option in MARKET}
            if _fits(question, gpu)
        ]
        best = min(cards[0].priced.usd_per_million for cards in every if cards)
        assert found.cards[0].priced.usd_per_million == best


def _fits(question: Question, gpu: str) -> bool:
    try:
        answer(dataclasses.replace(question, gpus=(gpu,)))
    except PlanInfeasible:
        return False
    return True


def test_moves_let_a_cheaper_card_carry_the_need_and_name_the_saving() -> None:
    found = answer(asked(concurrency=12, spot_ok=False), [offer(1, "l4", "0.3"), *MARKET[2:]])
    assert found.moves
    for move in found.moves:
        assert all(report.holds_need for report in move.move.reports)
        assert move.saves_usd_per_hour == Decimal("0.90") - move.usd_per_hour


def best(question: Question, market: list[SupplyOption] | None = None) -> Priced | None:
    """What the advisor recommends when it looks at all that fits."""
    try:
        found = answer(question, market)
    except PlanInfeasible:
        return None
    return recommended(found.ranking.priced)


@pytest.mark.parametrize(
    "question",
    [
        {},
        {"goal": Goal.BATCH, "concurrency": 64},
        {"requests_per_s": 12.0, "spot_ok": False},
        {"model": BIG, "weights": "fp8"},
    ],
    ids=str,
)
def test_what_would_change_is_what_the_changed_question_is_answered(
    question: dict[str, Any],
) -> None:
    found = advise(asked(**question), MARKET)
    base = recommended(found.ranking.priced)
    assert base is not None
    known = {change.change: change.now for change in found.changes}
    assert known
    assert all(now is None or shape(now) != shape(base) for now in known.values())
    users = asked(**question).concurrency
    one_step: list[tuple[str, dict[str, Any]]] = [
        ("only on-demand", {"spot_ok": False}),
        ("batch instead of chat", {"goal": Goal.BATCH}),
        ("the cache in fp8", {"kv": "fp8"}),
        (f"{users * 2} requests at a time", {"concurrency": users * 2}),
        (f"{users // 2} requests at a time", {"concurrency": users // 2}),
        ("a context of 16,384 tokens", {"context": 16_384}),
        ("a context of 4,096 tokens", {"context": 4096}),
    ]
    for text, values in one_step:
        again = best(asked(**(question | values)))
        if text in known:
            now = known[text]
            assert (now is None) == (again is None)
            if now is not None and again is not None:
                assert now.worst_usd_per_million == again.worst_usd_per_million
        else:
            assert again is not None
            assert shape(again) == shape(base)


def test_above_the_price_that_is_named_something_else_is_recommended() -> None:
    found = advise(asked(spot_ok=False), MARKET)
    base = recommended(found.ranking.priced)
    assert base is not None
    (change,) = [c for c in found.changes if "USD/h a replica" in c.change]
    limit = Decimal(change.change.split("more than ")[1].split()[0])
    assert limit > base.list_usd_per_replica_hour
    for share, stays in (("0.99", True), ("1.01", False)):
        factor = limit * Decimal(share) / base.list_usd_per_replica_hour
        dearer = [
            dataclasses.replace(o, usd_per_instance_hour=o.usd_per_instance_hour * factor)
            if o.gpu == base.option.gpu
            else o
            for o in MARKET
        ]
        now = best(asked(spot_ok=False), dearer)
        assert now is not None
        assert (shape(now) == shape(base)) is stays


def test_beyond_the_losses_that_are_named_spot_is_not_recommended() -> None:
    found = advise(asked(), MARKET)
    base = recommended(found.ranking.priced)
    assert base is not None
    assert base.option.is_spot
    (change,) = [c for c in found.changes if "preemptions an hour" in c.change]
    limit = float(change.change.split("more than ")[1].split()[0])
    for share, spot in ((0.9, True), (1.1, False)):
        riskier = [
            dataclasses.replace(o, hazard_per_hour=limit * share) if o.is_spot else o
            for o in MARKET
        ]
        now = best(asked(), riskier)
        assert now is not None
        assert now.option.is_spot is spot


# --- laws --------------------------------------------------------------------------------------


@settings(max_examples=15)
@given(
    ttft=st.floats(0.2, 5),
    tpot=st.floats(0.01, 0.2),
    slack=st.floats(1, 4),
    users=st.integers(1, 64),
)
def test_a_stricter_limit_is_never_cheaper(
    ttft: float, tpot: float, slack: float, users: int
) -> None:
    strict = cheapest(asked(concurrency=users, ttft_p99_s=ttft, tpot_s=tpot))
    loose = cheapest(asked(concurrency=users, ttft_p99_s=ttft * slack, tpot_s=tpot * slack))
    if strict is not None:
        assert loose is not None
        # Rates come from a bisection that ends within one part in ten thousand.
        assert loose <= strict * Decimal("1.001")


@settings(max_examples=15)
@given(users=st.integers(1, 40), context=st.integers(1500, 16_000), more=st.integers(1, 3))
def test_more_requests_or_longer_ones_never_fit_where_fewer_did_not(
    users: int, context: int, more: int
) -> None:
    def groups(question: Question) -> set[tuple[str, int]]:
        return {(r.gpu.id, r.gpu_count) for r in answer(question).fits.fits}

    small = groups(asked(concurrency=users, context=context))
    assert groups(asked(concurrency=users * more, context=context)) <= small
    assert groups(asked(concurrency=users, context=context * more)) <= small


@settings(max_examples=10)
@given(usd=st.floats(0.05, 20))
def test_an_added_offer_never_makes_the_answer_dearer(usd: float) -> None:
    more = [*MARKET, offer(99, "l40s", f"{usd:.4f}")]
    best = answer(asked(), more).cards[0].priced.usd_per_million
    base = cheapest(asked())
    assert base is not None
    assert best <= base


# --- wrong questions ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"context": 0}, "context 0: must be at least 1"),
        ({"context": 1_000_000}, "is made for 131,072 tokens"),
        ({"concurrency": 0}, "concurrency 0: must be at least 1"),
        ({"overlap": 1.5}, "prefix overlap 1.5: must be from 0 to 1"),
        ({"weights": "fp7"}, "fp7"),
        ({"input_tokens": 0}, "input tokens 0: must be at least 1"),
        ({"input_tokens": 9000}, "together more than the context of 8192"),
        ({"ttft_p99_s": 0.0}, "ttft_p99_s 0.0: must be above 0"),
        ({"requests_per_s": float("nan")}, "requests per second nan"),
        ({"tensor_parallel": 0}, "tensor parallel 0"),
    ],
)
def test_a_question_without_meaning_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        asked(**changes)


def test_what_fits_nowhere_says_by_how_much_and_what_helps() -> None:
    with pytest.raises(PlanInfeasible, match="fits no group") as caught:
        answer(asked(model=BIG, concurrency=256, context=65_536, gpus=("l4",)))
    assert any("GiB" in line for line in caught.value.limits)
    assert caught.value.relaxations


def test_limits_that_no_card_keeps_are_named() -> None:
    with pytest.raises(PlanInfeasible, match=r"0\.1 ms per token") as caught:
        answer(asked(tpot_s=0.0001))
    assert any("tried" in line for line in caught.value.limits)


@pytest.mark.parametrize(
    ("weights", "card", "runs"),
    [
        ("awq", "v100-16gb", False),
        ("awq", "t4", True),
        ("gptq", "v100-16gb", True),
        ("int8", "v100-16gb", False),
        ("fp8", "a100-80gb-sxm", True),
        ("awq", "mi300x", False),
        ("fp8", "mi300x", True),
        ("fp8", "mi250", False),
        ("bf16", "mi250", True),
    ],
)
def test_formats_run_where_vllm_has_kernels_for_them(weights: str, card: str, runs: bool) -> None:
    # vLLM's documentation, "Quantization", table of supported hardware.
    assert lacks_kernel(weights, gpus.gpu(card)) is not runs
    question = asked(weights=weights, gpus=(card,), concurrency=1, context=2048)
    if runs:
        assert answer(question, []).recommended.gpu.id == card
    else:
        with pytest.raises(InputError, match=f"weights {weights}: vLLM has no kernel"):
            answer(question, [])


def test_cards_that_no_engine_runs_on_are_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"Tesla P40.*7 \(Volta\) or newer"):
        answer(asked(gpus=("p40",)))


def test_the_document_says_in_both_units() -> None:
    memory = to_json(answer(asked()), snapshot_id=None, prices_as_of=None)["memory"]
    for part in ("weights", "kv_cache", "total"):
        assert memory[f"{part}_gb"] * 1e9 == pytest.approx(memory[f"{part}_gib"] * GIB, rel=1e-3)
