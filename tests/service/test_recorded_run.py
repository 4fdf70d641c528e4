"""From recorded payloads to listed offers, by the commands a person types, on both engines."""

from __future__ import annotations

import csv
import functools
import operator
from collections import Counter, defaultdict
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from pricing.registry import by_name
from tests.running import document, environment, spotfloor
from tests.shared import payloads, shared

FIRST_RANK = ("aws", "gcp", "azure", "runpod", "vastai", "lambda")
ONLY_THEM = [word for name in FIRST_RANK for word in ("--provider", name)]


def expected(provider: str) -> Counter[tuple[str, ...]]:
    """What the tables beside the samples say of the files that a network run would fetch."""
    folder = payloads(provider)
    names = sorted(path.name for path in folder.iterdir())
    primary = set(by_name(provider).primary(names))
    by_file: dict[str, Counter[tuple[str, ...]]] = defaultdict(Counter)
    with (folder / "expected_offers.csv").open(newline="") as lines:
        for row in csv.DictReader(lines):
            first = row["source_file"].split("+")[0]
            if first in primary and row["usd_per_hour"]:
                by_file[first][_facts(row, row.get("seller_tier") or "secure")] += 1
    # One offer in two files (a marketplace's two listings) is one offer.
    return functools.reduce(operator.or_, by_file.values())


def _facts(row: dict[str, Any], tier: str) -> tuple[str, ...]:
    return (
        row["region"] or "*",
        row["zone"],
        row["instance_type"],
        tier,
        str(Decimal(str(row["gpu_count"])).normalize()),
        row["purchase_option"],
        str(Decimal(row["usd_per_hour"]).quantize(Decimal("0.00001"))),
    )


def listed(variables: dict[str, str]) -> list[dict[str, Any]]:
    offers = document(spotfloor("prices", "list", "--json", variables=variables))["offers"]
    assert isinstance(offers, list)
    return offers


@pytest.mark.shared
def test_a_recorded_run_lists_the_expected_offers_and_a_second_writes_no_span(
    database_url: str,
) -> None:
    folder = shared("payloads")
    variables = environment(database_url)
    command = ("scrape", "run", "--from", str(folder), *ONLY_THEM, "--json")

    first = document(spotfloor(*command, variables=variables))
    assert first["schema"] == "spotfloor.scrape/1"
    assert {run["provider"]: run["state"] for run in first["runs"]} == dict.fromkeys(
        FIRST_RANK, "ok"
    )
    offers = listed(variables)
    for provider in FIRST_RANK:
        found = Counter(_facts(o, o["tier"]) for o in offers if o["provider"] == provider)
        assert found == expected(provider), provider
    assert all(o["source_url"] and o["observed_at"] and o["freshness"] for o in offers)

    second = document(spotfloor(*command, variables=variables))
    for before, after in zip(first["runs"], second["runs"], strict=True):
        assert (after["spans_opened"], after["spans_closed"]) == (0, 0), after["provider"]
        assert after["spans_kept"] == before["spans_opened"] == after["offers"]
    assert listed(variables) != [], "and the prices are still there"


@pytest.mark.shared
def test_status_and_doctor_show_each_source_with_its_rejections(tmp_path: Path) -> None:
    folder = shared("payloads")
    variables = environment(f"sqlite:///{tmp_path / 'one.db'}")
    spotfloor("scrape", "run", "--from", str(folder), *ONLY_THEM, variables=variables)

    status = document(spotfloor("scrape", "status", "--rejected", "--json", variables=variables))
    assert status["schema"] == "spotfloor.status/1"
    sources = {source["provider"]: source for source in status["sources"]}
    assert set(FIRST_RANK) <= set(sources)
    for name in FIRST_RANK:
        source = sources[name]
        assert source["current_offers"] == expected(name).total()
        assert source["last_run"]["state"] == "ok"
        counted: Counter[str] = Counter()
        for row in source["rejections"]:
            counted[row["reason"]] += row["count"]
        assert counted == source["rejected_by_reason"]
        assert counted.total() == source["last_run"]["rejected"] > 0
    assert sources["runpod"]["spot_ended_at"] == "2026-09-11T00:00:00Z"

    people = spotfloor("scrape", "status", variables=variables)
    assert people.returncode == 0
    assert all(name in people.stdout for name in FIRST_RANK)
    doctor = spotfloor("doctor", variables=variables)
    assert doctor.returncode == 0, doctor.stdout + doctor.stderr
    assert all(name in doctor.stdout for name in FIRST_RANK)


@pytest.mark.shared
def test_an_old_recording_is_shown_as_old_and_cannot_be_planned_on(tmp_path: Path) -> None:
    variables = environment(f"sqlite:///{tmp_path / 'one.db'}")
    spotfloor(
        "scrape", "run", "--from", str(shared("payloads")), "-p", "gcp",
        "--observed-at", "2026-09-20T00:00:00Z", variables=variables,
    )  # fmt: skip
    assert {offer["freshness"] for offer in listed(variables)} == {"stale"}
    plan = spotfloor(
        "plan", "solve", "--gpu", "L4", "--floor", "1", "--ceiling", "2", "--json",
        variables=variables,
    )  # fmt: skip
    assert plan.returncode == 4, plan.stderr
    assert "stale" in plan.stderr


@pytest.mark.shared
def test_runpod_spot_is_stored_with_its_history_but_named_as_ended(tmp_path: Path) -> None:
    variables = environment(f"sqlite:///{tmp_path / 'one.db'}")
    spotfloor(
        "scrape", "run", "--from", str(shared("payloads")), "-p", "runpod", variables=variables
    )
    spot = [offer for offer in listed(variables) if offer["purchase_option"] == "spot"]
    assert spot
    assert {offer["freshness"] for offer in spot} == {"ended"}


@pytest.mark.parametrize(
    ("folder", "said"),
    [
        ("nowhere", "no such folder; give one that holds <provider>/<file>"),
        ("empty", "holds no folder named after a provider"),
        ("wrong", "none of its files is one that lambda would fetch"),
    ],
)
def test_a_wrong_folder_is_one_clear_line(tmp_path: Path, folder: str, said: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "wrong" / "lambda").mkdir(parents=True)
    (tmp_path / "wrong" / "lambda" / "notes.txt").write_text("hello")
    variables = environment(f"sqlite:///{tmp_path / 'one.db'}")

    result = spotfloor("scrape", "run", "--from", str(tmp_path / folder), variables=variables)
    assert result.returncode == 6
    assert result.stdout == ""
    assert said in result.stderr
    assert len(result.stderr.strip().splitlines()) == 1


@pytest.mark.shared
def test_a_scrape_shows_no_progress_in_a_pipe_and_data_alone_on_stdout(tmp_path: Path) -> None:
    variables = environment(f"sqlite:///{tmp_path / 'one.db'}")
    result = spotfloor(
        "scrape", "run", "--from", str(shared("payloads")), "-p", "lambda", "--json",
        variables=variables,
    )  # fmt: skip
    document(result)
    assert "\x1b" not in result.stderr
    assert "\r" not in result.stderr


@pytest.mark.shared
def test_a_scrape_shows_what_it_does_on_a_terminal(tmp_path: Path) -> None:
    import os
    import pty
    import subprocess
    import sys

    variables = environment(f"sqlite:///{tmp_path / 'one.db'}", TERM="xterm-256color")
    screen, terminal = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "service.cli", "scrape", "run", "-p", "aws", "-p", "lambda",
         "--from", str(shared("payloads"))],
        env=variables, stdout=subprocess.PIPE, stderr=terminal, text=True,
    )  # fmt: skip
    os.close(terminal)
    shown = b""
    while True:
        try:
            piece = os.read(screen, 65536)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        shown += piece
    os.close(screen)
    table, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"parsing" in shown
    assert "lambda" in table
