"""Supply: which traffic tariff applies to a machine that the database offers."""

from __future__ import annotations

from decimal import Decimal

import pytest

from core.market import EgressTariff, Parsed
from db.engine import Database, reading
from optimizer.supply import read_supply
from tests.builders import T0, a_report, a_tariff, an_offer, write

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
