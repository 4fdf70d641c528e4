"""``plan batch`` on the bundled snapshot."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from tests.service.inside import check, run

BATCH = ("plan", "batch", "--gpu", "L4", "--provider", "gcp", "--deadline", "24")
TOKENS = (*BATCH, "--tokens", "1e9", "--tokens-per-second", "2000")


def test_tokens_by_a_deadline(snapshot: Path) -> None:
    found = check(run(*TOKENS, "--json").document)
    # 1e9 tokens at 2,000/s take 500,000 s = 138.9 hours of one replica.
    assert found["inputs"]["replica_hours"] == pytest.approx(138.889, abs=0.001)
    assert found["work_hours"] == pytest.approx(138.889 / found["replicas"], abs=0.001)
    usd = Decimal(found["expected"]["usd"])
    assert usd < Decimal(found["all_on_demand"]["usd"])
    assert Decimal(found["expected"]["usd_per_million_tokens"]) == pytest.approx(
        usd / 1000, abs=Decimal("0.0001")
    )
    shown = run(*TOKENS).out
    assert "latest safe moments" in shown
    assert "Can't Be Late" in shown


def test_jobs_and_models_are_batch_too(snapshot: Path) -> None:
    jobs = check(run(*BATCH, "--jobs", "20", "--hours-per-job", "2", "--json").document)
    assert jobs["inputs"]["checkpoint_minutes"] == 120
    model = check(
        run("plan", "batch", "-m", "Llama-3.1-8B-Instruct", "-p", "gcp", "--tokens", "1e9",
            "--deadline", "48", "--json").document
    )  # fmt: skip
    assert model["inputs"]["tokens_per_second_per_replica"] > 100


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (BATCH, 2, "say the work once"),
        ((*BATCH, "--tokens", "1e9"), 2, "needs --tokens-per-second"),
        ((*BATCH, "--jobs", "3"), 2, "--jobs needs --hours-per-job"),
        ((*TOKENS, "--jobs", "3"), 2, "say the work once"),
        ((*TOKENS, "--deadline", "-1"), 2, "--deadline -1.0"),
        ((*TOKENS, "--max-instances", "0"), 2, "max_instances 0"),
        ((*TOKENS, "--tokens-in", "5"), 2, "only go with --model"),
    ],
)
def test_wrong_use_of_batch_is_one_line(
    snapshot: Path, words: tuple[str, ...], code: int, said: str
) -> None:
    ran = run(*words)
    assert said in ran.error
    assert ran.code == code


def test_a_hopeless_deadline_is_code_3_with_the_mend(snapshot: Path) -> None:
    ran = run(*TOKENS, "--deadline", "0.5")
    assert ran.code == 3
    assert "try: --deadline " in ran.err
