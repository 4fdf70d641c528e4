"""A card whose spot price is above its on-demand price, as public catalogues list now and then."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import SystemClock
from core.market import Offer, PurchaseOption
from db.engine import make_engine
from db.migrate import upgrade
from tests.builders import a_report, an_offer, write
from tests.service.inside import run


def a40(usd: str, option: PurchaseOption, age: timedelta, name: str = "1x A40") -> Offer:
    return an_offer(
        instance_type=name, gpu="a40", vram_gib=48, usd_per_hour=usd, purchase_option=option,
        observed_at=SystemClock().now() - age, provider="acme",
    )  # fmt: skip


def test_the_dearer_spot_is_flagged_and_the_old_cheap_one_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{tmp_path / 'one.db'}")
    engine = make_engine(f"sqlite:///{tmp_path / 'one.db'}")
    upgrade(engine)
    minute, old = timedelta(minutes=1), timedelta(days=90)
    write(engine, a_report([a40("0.28", PurchaseOption.SPOT, old, "1x A40 old")], closing=False))
    write(
        engine,
        a_report(
            [
                a40("0.44", PurchaseOption.ON_DEMAND, minute),
                a40("0.49", PurchaseOption.SPOT, minute),
            ],
            closing=False,
        ),
    )

    words = ("plan", "solve", "--gpu", "A40", "--floor", "2", "--ceiling", "4", "--json")
    plan = run(*words).document
    assert {row["purchase_option"] for row in plan["fleet"]} == {"on_demand"}
    assert {row["usd_per_instance_hour"] for row in plan["fleet"]} == {"0.44"}
    (flag,) = [line for line in plan["warnings"] if "cost no less" in line]
    assert "0.49 against 0.44 USD/h (saving -11.4%)" in flag
    assert any("stale" in line for line in plan["warnings"]), "what was left out is said"
    offers = run("prices", "list", "--json").document["offers"]
    ages = {offer["usd_per_hour"]: offer["freshness"] for offer in offers}
    assert ages == {"0.44": "fresh", "0.49": "fresh", "0.28": "stale"}
