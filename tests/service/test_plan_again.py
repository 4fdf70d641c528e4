"""What a plan is asked beside itself, and a plan looked at again, on the bundled snapshot."""

from __future__ import annotations

import io
import json
import sys
from decimal import Decimal
from pathlib import Path

import pytest

from dashboard.plan_supply import repriced, selected_supply
from db.engine import Database, reading
from optimizer.plan import solve_plan
from optimizer.selection import Selection
from optimizer.workload import Workload
from tests.builders import facts, hour, look
from tests.service.inside import check, run

SMALL = ("plan", "solve", "--gpu", "L4", "--provider", "gcp", "--region", "us-east4",
         "--floor", "2", "--ceiling", "2")  # fmt: skip


def test_a_kept_plan_a_file_and_standard_input_are_looked_at_again(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = run(*SMALL, "--save", "--json").document
    check(plan)
    assert plan["receipt"]["selection"] == {
        "providers": ["gcp"], "regions": ["us-east4"], "community": False, "origin": None,
        "price_basis": "latest",
    }  # fmt: skip
    told = check(run("plan", "reprice", "--json").document)
    assert told["plan_id"] == plan["plan_id"]
    assert told["receipt"]["intact"]
    assert told["reproduced"]["same_plan"]
    assert (told["reproduced"]["rows_gone"], told["reproduced"]["rows_changed"]) == (0, 0)
    assert told["now"]["usd_per_month"] == plan["cost"]["usd_per_month"]
    assert told["still_best"]
    file = tmp_path / "plan.json"
    plan["cost"]["usd_per_month"] = "1"
    file.write_text(json.dumps(plan), "utf-8")
    shown = run("plan", "reprice", str(file))
    assert "NOT INTACT" in shown.out
    monkeypatch.setattr(sys, "stdin", io.StringIO(json.dumps(told)))
    assert "no plan" in run("plan", "reprice", "-").error


def test_what_is_no_plan_is_one_line(snapshot: Path, tmp_path: Path) -> None:
    assert "no plan is kept" in run("plan", "reprice").error
    assert "'nothing'" in run("plan", "reprice", "nothing").error
    file = tmp_path / "broken.json"
    file.write_text('{"schema": "spotfloor.plan/1"', "utf-8")
    assert "no JSON" in run("plan", "reprice", str(file)).error
    file.write_text('{"schema": "spotfloor.plan/1", "receipt": {}}', "utf-8")
    assert "no plan that can be read" in run("plan", "reprice", str(file)).error


def test_sensitivity_and_why_not_are_answered_beside_the_plan(snapshot: Path) -> None:
    words = ("--why-not", "jarvislabs l4 on-demand", "--why-not", "gcp us-east4 l4 on-demand")
    plan = check(run(*SMALL, "--sensitivity", *words, "--json").document)
    told = plan["sensitivity"]
    assert told["base_usd_per_month"] == plan["cost"]["usd_per_month"]
    swings = [Decimal(bar["swing_usd_per_month"]) for bar in told["bars"]]
    assert swings == sorted(swings, reverse=True)
    assert {curve["input"] for curve in told["break_even"]} == {"hazard", "reload_time"}
    first, second = plan["why_not"]
    assert first["verdict"] == "excluded"
    assert "jarvislabs is not among the providers asked for (gcp)" in first["reasons"][0]
    assert second["verdict"] in {"in_plan", "priced_out", "tied"}
    shown = run(*SMALL, "--why-not", str(second["offer_id"]))
    assert f"offer {second['offer_id']}" in shown.out


def test_a_price_basis_is_recorded_and_what_it_cannot_give_is_said(snapshot: Path) -> None:
    plan = check(run(*SMALL, "--price-basis", "median-7d", "--json").document)
    assert plan["receipt"]["selection"]["price_basis"] == "median-7d"
    assert any("Too little price history for median-7d" in line for line in plan["warnings"])
    assert {row["price_basis"] for row in plan["fleet"]} <= {"latest", "median-7d"}


def test_a_selection_is_read_at_its_price_basis(sqlite: Database) -> None:
    for at in range(0, 169, 12):
        price = {"one": "2" if at < 96 else "3"}
        look(sqlite, hour(at), price, source=facts(every_seconds=12 * 3600))
    with reading(sqlite) as session:
        latest, median = (
            selected_supply(session, hour(169), Selection(price_basis=basis)).options[0]
            for basis in ("latest", "median-7d")
        )
        assert (latest.usd_per_instance_hour, latest.price_basis) == (Decimal(3), "latest")
        assert (median.usd_per_instance_hour, median.price_basis) == (Decimal(2), "median-7d")
        supply = selected_supply(session, hour(169), Selection(price_basis="median-7d"))
        plan = solve_plan(
            Workload(name="w", demand=(1.0,) * 24), supply.options,
            snapshot_id=supply.snapshot_id, prices_as_of=supply.prices_as_of,
            selection=Selection(price_basis="median-7d"),
        )  # fmt: skip
        document = json.loads(json.dumps(plan.to_json()))
        found = repriced(session, document, hour(169))
    # The stored row says 3, the newest price; the plan's 2 is a figure over time, on purpose.
    assert found.usd_per_month == Decimal(1460)
    assert found.still_best
    assert found.document["reproduced"]["rows_changed"] == 0


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--price-basis", "mean"), "price basis 'mean'"),
        (("--why-not", "no such offer"), "--why-not 'no such offer'"),
        (("--why-not", ""), "--why-not ''"),
        (("--frontier", "0.9", "--sensitivity"), "leave out --frontier"),
        (("--why-not", "1", "--why-not", "2", "--why-not", "3", "--why-not", "4", "--why-not", "5",
          "--why-not", "6"), "5 at a time"),
    ],
    ids=str,
)  # fmt: skip
def test_wrong_use_is_one_line(snapshot: Path, words: tuple[str, ...], named: str) -> None:
    assert named in run(*SMALL, *words).error
