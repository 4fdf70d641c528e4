"""``spotfloor risk``: hooks and files that record events, and what is shown of them."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from core.clock import FixedClock, SystemClock
from core.market import Availability, Parsed, PurchaseOption
from db.engine import make_engine, reading
from db.observations import latest_observations
from optimizer.slot_risk import PRIOR_HAZARD_PER_HOUR
from optimizer.supply import read_supply
from pricing.collect import collect, given
from tests.builders import a_payload, a_provider, a_report, an_offer, facts, hour, write
from tests.service.inside import check, run
from tests.shared import payloads

AWS = ("--provider", "aws", "--instance-type", "p5.48xlarge", "--region", "us-east-1")


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    url = f"sqlite:///{tmp_path / 'own.db'}"
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", url)
    return url


def record(*words: str) -> dict[str, object]:
    return check(run("risk", "record", *words, "--json").document)


def test_a_hook_may_record_its_event_twice() -> None:
    words = (*AWS, "--zone", "use1-az1", "--event", "preempted", "--at", "2026-11-01T00:00:00Z")
    assert record(*words) == {
        "schema": "spotfloor.risk-record/1", "recorded": 1, "already_known": 0,
    }  # fmt: skip
    assert record(*words)["already_known"] == 1
    assert record(*AWS, "--event", "started")["recorded"] == 1, "now, without --at"


def test_a_file_of_events_gives_a_hazard_with_its_n_and_base(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_text(
        "provider,instance_type,region,event,at,node\n"
        "aws,p5.48xlarge,us-east-1,started,2026-11-01T00:00:00Z,a\n"
        "aws,p5.48xlarge,us-east-1,preempted,2026-11-01T10:00:00+02:00,a\n"
        "aws,p5.48xlarge,us-east-1,started,2026-11-01,b\n"
        "aws,p5.48xlarge,us-east-1,ended,2026-11-01T12:00:00Z,b\n"
    )
    assert record("--csv", str(file))["recorded"] == 4
    assert record("--csv", str(file))["already_known"] == 4
    document = check(run("risk", "show", "--json").document)
    (pool,) = document["pools"]
    assert (pool["losses"], pool["hours_up"], pool["starts"]) == (1, 20, 2)
    assert pool["hazard_per_hour"] == pytest.approx(1 / 20)
    assert pool["hazard_low_per_hour"] < 1 / 20 < pool["hazard_high_per_hour"]
    assert "1 preemptions in 20.0 hours up of 2 nodes" in pool["base"]
    assert pool["planned_hazard_per_hour"] == pytest.approx(2 / (20 + 1 / PRIOR_HAZARD_PER_HOUR))
    assert pool["planned_low_per_hour"] < 2 / 22.44 < pool["planned_high_per_hour"]
    assert "own record, 89%" in pool["planned_source"]
    assert (pool["fit_family"], pool["fit_scale_hours"]) == ("exponential", 20)
    assert pool["median_life_hours"] == 8, "one lost after 8 hours, the other given back after 12"
    people = run("risk", "show")
    assert "0.05" in people.out
    assert "exponential" in people.out
    assert "90 % interval of the rate" in people.out
    assert "per hour up" in people.out
    assert "1 in 1 events, at most 1" in people.out
    assert (pool["droughts_ended"], pool["drought_source"][:5]) == (0, "prior")
    assert run("risk", "show", "--csv").out.splitlines()[0].startswith("provider,instance_type")
    assert check(run("risk", "show", "-p", "gcp", "--json").document)["pools"] == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "--provider is missing; an event needs provider, instance_type, region, event, at"),
        (AWS, "--event is missing"),
        ((*AWS, "--event", "died"), "--event 'died': no such event; one of started, notice"),
        ((*AWS, "--event", "ended", "--at", "yesterday"), "--at yesterday: write an instant"),
        ((*AWS, "--event", "ended", "--at", "2199-01-01"), "lies in the future"),
        (("--provider", "awz", *AWS[2:], "--event", "ended"), "did you mean aws?"),
        ((*AWS, "--event", "ended", "--csv", "x.csv"), "--csv excludes the options of a single"),
        (("--csv", "nowhere.csv"), "cannot read: No such file"),
    ],
)
def test_a_wrong_event_is_one_clear_line(words: tuple[str, ...], said: str) -> None:
    ran = run("risk", "record", *words)
    assert said in ran.error
    assert ran.code == 2


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no column 'provider'"),
        ("provider,instance_type,region,event\n", "no column 'at'"),
        ("provider,instance_type,region,event,at\naws,p5,us,ended,soon\n", "line 2: at 'soon'"),
        ("provider,instance_type,region,event,at\naws,p5,,ended,2026-11-01\n", "line 2: region"),
        ("provider,instance_type,region,event,at\naws,p5,us,ended,2026-11-01,x\n", "more fields"),
        ("provider,instance_type,region,event,at\naws,p5,us,ended\n", "line 2: at ''"),
        ("provider,instance_type,region,event,at\nawz,p5,us,ended,2026-11-01\n", "mean aws?"),
    ],
)
def test_a_file_with_one_bad_row_is_not_taken_at_all(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "events.csv"
    good = "aws,p5,us,started,2026-11-01T00:00:00Z\n"
    file.write_text(text + (good if text.count("\n") > 1 else ""))
    assert said in run("risk", "record", "--csv", str(file)).error
    assert check(run("risk", "show", "--json").document)["pools"] == []


def test_bytes_that_are_no_text_are_one_clear_line(tmp_path: Path) -> None:
    file = tmp_path / "events.csv"
    file.write_bytes(b"\xff\xfe\x00provider")
    assert "no CSV in UTF-8" in run("risk", "record", "--csv", str(file)).error


def test_stock_of_spot_pools_becomes_dated_observations(own: str) -> None:
    run("risk", "show")
    database = make_engine(own)

    def look(at: float, stock: Availability) -> None:
        def parse(_: object) -> Parsed:
            return Parsed(
                offers=[
                    an_offer(purchase_option=PurchaseOption.SPOT, availability=stock,
                             observed_at=hour(at)),
                    an_offer(availability=stock, observed_at=hour(at)),
                ]
            )  # fmt: skip

        collect(database, a_provider(parse), lambda _: given([a_payload(at=hour(at))]),
                FixedClock(hour(at)))  # fmt: skip

    for at, stock in ((0, Availability.AVAILABLE), (1, Availability.SOLD_OUT)):
        look(at, stock)
    look(2, Availability.UNKNOWN)
    with reading(database) as session:
        (told,) = latest_observations(session)
    assert (told.kind, told.low, told.observed_at) == ("stock", Decimal(0), hour(1))
    assert "1 in stock, 0.5 little, 0 none" in told.base


@pytest.mark.shared
def test_recorded_sources_show_bands_reliability_and_their_base() -> None:
    folder = payloads("aws").parent
    run("scrape", "run", "--from", str(folder), "-p", "aws", "-p", "vastai")
    document = check(run("risk", "show", "--json").document)
    kinds = {(o["provider"], o["kind"], o["base"]) for o in document["observations"]}
    assert ("aws", "interruption_band", "trailing month") in kinds
    assert (
        "vastai", "host_reliability", "share of time up, by Vast.ai; no interruption rate",
    ) in kinds  # fmt: skip
    shares = [o for o in document["observations"] if o["kind"] == "host_reliability"]
    assert all(0 <= Decimal(o["high"]) - Decimal(o["low"]) <= Decimal("0.001") for o in shares)
    assert len(shares) == len({(o["region"], o["instance_type"]) for o in shares})
    people = run("risk", "show", "-p", "aws")
    assert "trailing month" in people.out


def test_a_plan_reckons_with_the_users_own_record_and_names_its_n(own: str) -> None:
    now = SystemClock().now()
    database = make_engine(own)
    run("risk", "show")
    offers = [
        an_offer(provider="aws", instance_type="g6", gpu="l4", vram_gib=24, region="us-east-1",
                 usd_per_hour=usd, purchase_option=option, observed_at=now)
        for usd, option in (("0.8", PurchaseOption.ON_DEMAND), ("0.3", PurchaseOption.SPOT))
    ]  # fmt: skip
    write(database, a_report(offers, source=facts("aws")))
    with reading(database) as session:
        before = {o.purchase_option: o for o in read_supply(session, now).options}
    start = (now - timedelta(hours=1000)).isoformat()
    record("-p", "aws", "--instance-type", "g6", "-r", "us-east-1", "--event", "started",
           "--at", start)  # fmt: skip
    with reading(database) as session:
        after = {o.purchase_option: o for o in read_supply(session, now).options}
    assert before["spot"].hazard_per_hour == PRIOR_HAZARD_PER_HOUR
    assert after["spot"].hazard_per_hour == pytest.approx(1 / (1000 + 1 / 0.41), rel=1e-3)
    assert "0 preemptions in 1000.0 hours up of 1 nodes" in after["spot"].hazard_basis
    assert after["spot"].hazard_interval is not None
    low, high = after["spot"].hazard_interval
    assert low < after["spot"].hazard_per_hour < high
    assert (after["spot"].hazard_losses, before["spot"].hazard_losses) == (0, None)
    # The public prior is one loss' worth: 5 % and 95 % of an exponential of its mean.
    assert before["spot"].hazard_interval == pytest.approx((0.41 * 0.0513, 0.41 * 2.9957), rel=1e-3)
    assert after["on_demand"] == before["on_demand"]
    row = next(row for row in a_plan()["fleet"] if row["purchase_option"] == "spot")
    assert row["hazard_interval_per_hour"] == [
        pytest.approx(low, rel=1e-3), pytest.approx(high, rel=1e-3),
    ]  # fmt: skip
    assert (row["hazard_losses"], row["hazard_hours_up"]) == (0, pytest.approx(1000, rel=1e-3))


def a_plan() -> dict[str, Any]:
    words = ("--gpu", "L4", "--floor", "2", "--ceiling", "4", "--availability", "0.95")
    return check(run("plan", "solve", *words, "--json").document)


def test_slots_needed_are_the_published_numbers() -> None:
    """Ten of those up 95 % of the time, in 99.9 %: 14 alone, 36 at 0.2, where 14 do in 95.94 %."""
    words = ("risk", "slots", "--wanted", "10", "--up", "0.95", "--chance", "0.999")
    document = check(run(*words, "--json").document)
    assert (document["independent"], document["correlated"]) == (14, 36)
    assert document["chance_of_independent"] == pytest.approx(0.9594, abs=5e-5)
    assert "36" in run(*words).out
    none = check(run(*words, "--correlation", "1", "--json").document)
    assert none["correlated"] is None
    assert "none up to 10000 does" in run(*words, "--correlation", "1").out
    assert "--up 1: must be above 0 and below 1" in run(*words[:4], "--up", "1").error
