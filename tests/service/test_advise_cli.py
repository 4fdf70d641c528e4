"""``spotfloor advise``: the contract, the founding articles' question, and wrong use."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest

from tests.service.inside import check, run
from tests.shared import shared

LLAMA = ("advise", "--model", "Llama-3.1-8B-Instruct")

CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "max_position_embeddings": 131072,
    "num_attention_heads": 32,
    "num_hidden_layers": 32,
    "num_key_value_heads": 8,
    "torch_dtype": "bfloat16",
    "vocab_size": 128256,
    "tie_word_embeddings": False,
}


@pytest.mark.parametrize(
    "words",
    [
        LLAMA,
        (*LLAMA, "--weights", "fp8", "--kv-dtype", "fp8", "--rps", "20", "--no-spot"),
        ("advise", "-m", "DeepSeek-V3.2", "--latency", "batch", "--concurrency", "64"),
        (*LLAMA, "--prefix-overlap", "0.7", "--gpu", "L4,L40S", "--context", "4096"),
    ],
    ids=" ".join,
)
def test_the_document_keeps_its_published_contract(
    snapshot: Path,
    words: tuple[str, ...],
) -> None:
    document = check(run(*words, "--json").document)
    assert document["fits"]
    assert [card["kind"] for card in document["cards"]] == ["cheapest", "balanced", "safest"]
    assert document["launch"]["vllm"]["plain"].startswith("vllm serve ")
    assert document["launch"]["sglang"]["plain"]
    assert document["load_minutes"] > 0
    for offer in document["offers"]:
        assert offer["source_url"]
        assert offer["price_as_of"]
        assert float(offer["tokens"]["usd_per_1k"]) * 1000 == pytest.approx(
            float(offer["tokens"]["usd_per_million"]), abs=1e-6
        )


def test_a_person_reads_the_answer_in_order(snapshot: Path) -> None:
    ran = run(*LLAMA, "--weights", "bf16")
    assert ran.code == 0, ran.err
    heads = ["\ncheapest", "\nmemory", "fits on", "\nengine", "\nspeed", "vllm serve"]
    assert ran.out.startswith("Serve meta-llama")
    places = [ran.out.index(head) for head in heads]
    assert places == sorted(places)
    assert "not live" in ran.out, "the age of the prices is said"


def test_the_csv_lists_the_offers(snapshot: Path) -> None:
    rows = list(csv.DictReader(io.StringIO(run(*LLAMA, "--csv").out)))
    offers = run(*LLAMA, "--json").document["offers"]
    assert [row["usd_per_million"] for row in rows] == [
        offer["tokens"]["usd_per_million"] for offer in offers
    ]


def test_filters_hold(snapshot: Path) -> None:
    offers = run(*LLAMA, "--no-spot", "-p", "runpod", "-p", "gcp", "--json").document["offers"]
    assert {offer["purchase_option"] for offer in offers} == {"on_demand"}
    assert {offer["provider"] for offer in offers} <= {"runpod", "gcp"}
    fits = run(*LLAMA, "--gpu", "L40S", "--json").document["fits"]
    assert {fit["gpu"] for fit in fits} == {"l40s"}


def test_a_model_of_ones_own_is_read_from_its_config(
    snapshot: Path,
    tmp_path: Path,
) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(CONFIG))
    own = run("advise", "--config", str(file), "--json").document
    known = run(*LLAMA, "--json").document
    assert own["memory"]["kv_bytes_per_token"] == known["memory"]["kv_bytes_per_token"] == 131_072
    assert own["memory"]["weights_gib"] == pytest.approx(known["memory"]["weights_gib"], rel=0.001)


@pytest.mark.shared
def test_a_request_trace_says_what_the_requests_are_like(snapshot: Path) -> None:
    path = shared("data", "AzureLLMInferenceTrace_conv_2023.csv.gz")
    inputs = run(*LLAMA, "--trace", str(path), "--json").document["inputs"]
    # Published means of this trace: 1,155 tokens in and 211 out.
    assert inputs["tokens_in"] == pytest.approx(1155, abs=2)
    assert inputs["tokens_out"] == pytest.approx(211, abs=2)
    own = run(*LLAMA, "--trace", str(path), "--tokens-out", "50", "--json").document["inputs"]
    assert own["tokens_out"] == 50, "what is said outright wins"


def test_without_prices_the_answer_comes_with_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{tmp_path / 'new.db'}")
    document = check(run(*LLAMA, "--json").document)
    assert document["offers"] == []
    assert document["fits"]
    assert any("no prices are stored yet" in line for line in document["warnings"])


WRONG: list[tuple[tuple[str, ...], str]] = [
    (("advise",), "say which model"),
    (("advise", "-m", "Llama-3.1-8B-Instrct"), "nearest: meta-llama/Llama-3.1-8B-Instruct"),
    ((*LLAMA, "--context", "0"), "context 0"),
    ((*LLAMA, "--context", "500000"), "is made for 131,072 tokens"),
    ((*LLAMA, "--concurrency", "-1"), "concurrency -1"),
    ((*LLAMA, "--weights", "fp7"), "fp7"),
    ((*LLAMA, "--kv-dtype", "int3"), "int3"),
    ((*LLAMA, "--prefix-overlap", "2"), "prefix overlap 2.0"),
    ((*LLAMA, "--latency", "fast"), "--latency fast: write chat or batch"),
    ((*LLAMA, "--tensor-parallel", "3"), "tensor_parallel 3: does not divide the 32"),
    ((*LLAMA, "--gpu", "H1000"), "no such GPU"),
    ((*LLAMA, "--gpu", "P40"), "Volta"),
    ((*LLAMA, "--rps", "0"), "requests per second 0.0"),
    ((*LLAMA, "--params", "8B"), "--params only goes with --config"),
    ((*LLAMA, "--json", "--csv"), "exclude each other"),
    ((*LLAMA, "--trace", "nowhere.csv"), "nowhere.csv: cannot read"),
    (("advise", "--config", "nowhere.json"), "nowhere.json: cannot read"),
]


@pytest.mark.parametrize(("words", "said"), WRONG, ids=[" ".join(words) for words, _ in WRONG])
def test_wrong_use_is_one_line(snapshot: Path, words: tuple[str, ...], said: str) -> None:
    ran = run(*words)
    assert said in ran.error
    assert ran.code == 2


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("[]", "holds no JSON object"),
        ("{", "no JSON"),
        (json.dumps({**CONFIG, "num_attention_heads": 0}), "num_attention_heads"),
        (
            json.dumps({k: v for k, v in CONFIG.items() if k != "num_hidden_layers"}),
            "hidden_layers",
        ),
        (json.dumps({**CONFIG, "num_key_value_heads": 7}), "num_key_value_heads"),
    ],
)
def test_a_config_that_lacks_or_contradicts_names_the_key(
    snapshot: Path,
    tmp_path: Path,
    content: str,
    said: str,
) -> None:
    file = tmp_path / "config.json"
    file.write_text(content)
    assert said in run("advise", "--config", str(file)).error


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "none of its 0 rows"),
        ("a,b\n1,2\n", "columns are not known"),
        ("TIMESTAMP,ContextTokens,GeneratedTokens\nx,1,1\ny,1,1\n", "row 1"),
        ('{"timestamp": 1}\n{broken\n', "line 2: no JSON"),
    ],
)
def test_a_broken_trace_is_one_line(
    snapshot: Path,
    tmp_path: Path,
    content: str,
    said: str,
) -> None:
    file = tmp_path / "trace.csv"
    file.write_text(content)
    ran = run(*LLAMA, "--trace", str(file))
    assert said in ran.error
    assert ran.code == 2


def test_what_fits_nowhere_ends_with_code_3_and_what_helps(snapshot: Path) -> None:
    ran = run("advise", "-m", "Llama-3.3-70B-Instruct", "--gpu", "L4", "--concurrency", "300")
    assert (ran.code, ran.out) == (3, "")
    assert "GiB" in ran.err
    assert "try: " in ran.err


def test_the_answer_is_the_same_again(snapshot: Path) -> None:
    def once() -> dict[str, Any]:
        return run(*LLAMA, "--json").document

    assert once() == once()
