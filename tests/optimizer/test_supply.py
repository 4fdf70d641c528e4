"""Supply: which traffic tariff applies to a machine that the database offers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from core.market import EgressTariff, Offer, Parsed, PurchaseOption
from core.nodes import NodeEvent, NodeEventKind
from db.engine import Database, reading, writing
from db.events import record_events
from optimizer.billing import RULES
from optimizer.market import SupplyOption
from optimizer.plan import solve_plan
from optimizer.supply import read_supply
from optimizer.workload import Limits
from tests.builders import T0, a_report, a_tariff, an_offer, facts, hour, write
from tests.optimizer.fleets import AS_OF, option, workload

REGION = a_tariff(("0", "0.09"), region="us-east-1")
MACHINE = a_tariff(("0", "0"), ("10240", "0.01"), region="h100.1")
WHOLE = a_tariff(("0", "0.05"), region="*")


@pytest.mark.parametrize(
    ("tariffs", "region"),
    [
        ([WHOLE, MACHINE, REGION], "us-east-1"),
        ([WHOLE, MACHINE], "h100.1"),
        ([WHOLE], "*"),
        ([a_tariff(region="eu-west-1")], None),
        ([a_tariff(region="*", provider="other")], None),
    ],
)
def test_the_narrowest_tariff_of_the_same_provider_applies(
    sqlite: Database, tariffs: list[EgressTariff], region: str | None
) -> None:
    offer = an_offer(region="us-east-1")
    write(sqlite, a_report(parsed=Parsed(offers=[offer], egress=tariffs)))
    with reading(sqlite) as session:
        (option,) = read_supply(session, T0).options
    assert (option.egress and option.egress.region) == region
    assert option.usd_per_instance_hour == Decimal(2)


def vast(ask: str, machine: int, count: int, usd: str, **changes: object) -> Offer:
    return an_offer(
        provider="vastai", instance_type=ask, offer_id=ask, gpu_count=count, usd_per_hour=usd,
        region="US-Utah", note=f"a slice of machine {machine}; host verified", **changes,
    )  # fmt: skip


def test_an_ask_of_a_marketplace_is_one_machine_and_its_slices_share_it(sqlite: Database) -> None:
    asks = [
        vast("1", 7, 1, "1.00"),
        vast("2", 7, 2, "1.90"),
        vast("3", 8, 1, "1.10"),
        vast("1", 7, 1, "0.40", purchase_option=PurchaseOption.SPOT),
        an_offer(region="us-east-1", usd_per_hour="3"),
    ]
    write(sqlite, a_report(asks[:4], source=facts("vastai")))
    write(sqlite, a_report(asks[4:]))
    with reading(sqlite) as session:
        options = read_supply(session, T0).options
    found = {(o.instance_type, o.is_spot): (o.stock, o.machine) for o in options}
    assert found == {
        ("1", False): (1, "vastai machine 7"),
        ("1", True): (1, "vastai machine 7"),
        ("2", False): (1, "vastai machine 7"),
        ("3", False): (1, "vastai machine 8"),
        ("h100.1", False): (None, ""),
    }
    plan = solve_plan(
        workload(demand=(5.0,) * 24, availability=0.999),
        options,
        snapshot_id="s",
        prices_as_of=T0,
    )
    # Machine 7 gives its two GPUs once, machine 8 its one; two must come from elsewhere.
    counts = {row.pool.option.instance_type: row.instances_max for row in plan.fleet}
    assert counts == {"2": 1, "3": 1, "h100.1": 2}


def test_of_thousands_of_single_machines_only_those_that_could_run_enter_the_program() -> None:
    single = [option(k, f"1.{k:03}", stock=1, machine=f"m{k}") for k in range(400)]
    asked = workload(demand=(5.0,) * 24, limits=Limits(min_on_demand=2))
    plan = solve_plan(
        asked, [*single, option(900, "2")], snapshot_id="s", prices_as_of=AS_OF
    ).to_json()
    assert plan["receipt"]["pools_in_program"] == 6
    assert plan["receipt"]["offer_ids"] == [0, 1, 2, 3, 4]


def test_spot_is_billed_by_its_providers_rule_and_planned_with_its_priors(
    sqlite: Database,
) -> None:
    """A pool without a record takes that of two others of its provider; other providers do not."""
    spot = {"region": "us-east-1", "purchase_option": PurchaseOption.SPOT}
    for provider in ("aws", "gcp"):
        offer = an_offer(provider=provider, **spot)
        write(sqlite, a_report([offer], source=facts(provider)))
    kinds = {"a": NodeEventKind.STARTED, "b": NodeEventKind.STARTED}
    events = [NodeEvent(hour(-100), "aws", name, "r", kind) for name, kind in kinds.items()]
    with writing(sqlite) as session:
        record_events(session, events, T0)
    with reading(sqlite) as session:
        found: dict[str, SupplyOption] = {o.provider: o for o in read_supply(session, T0).options}
    assert found["aws"].billing == RULES["aws"]
    # No loss in 200 hours, and one in 1 / 0.41 hours of the public prior.
    assert found["aws"].hazard_per_hour == pytest.approx(1 / (200 + 1 / 0.41))
    assert "0 preemptions in 200.0 hours up of 2 other pools at aws" in found["aws"].hazard_basis
    assert found["aws"].hazard_basis.startswith("prior:")
    assert found["gcp"].hazard_per_hour == 0.41
    assert found["aws"].hazard_losses is None
