"""What an offer cost over a stretch of time."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from core.errors import InputError
from db.engine import Database, reading
from db.offers import current_offers
from db.spans import prices_of_rows
from pricing.basis import WINDOWS, basis_price, basis_prices
from pricing.series import Step
from tests.builders import facts, hour, look


def step(start: float, stop: float, usd: str | None, *, sold_out: bool = False) -> Step:
    price = None if usd is None else Decimal(usd)
    return Step(hour(start), hour(stop), price, sold_out=sold_out)


def test_the_median_counts_hours_and_only_those_that_could_be_had() -> None:
    # 100 h: 2 USD for 40, 3 for 35, then 25 h sold out at 9: half of 75 h is in the 2s and 3s.
    steps = [step(0, 40, "2"), step(40, 75, "3"), step(75, 100, "9", sold_out=True)]
    found = basis_price(steps, timedelta(hours=100), WINDOWS["median-7d"][1])
    assert found.usd_per_hour == Decimal(2)
    assert found.known_hours == 75


def test_the_ninetieth_percentile_is_kept_for_nine_tenths_of_the_hours() -> None:
    share = WINDOWS["p90-30d"][1]
    window = timedelta(hours=100)
    tenth = [step(0, 90, "2"), step(90, 100, "8")]
    assert basis_price(tenth, window, share).usd_per_hour == Decimal(2)
    more = [step(0, 89, "2"), step(89, 100, "8")]
    assert basis_price(more, window, share).usd_per_hour == Decimal(8)


def test_with_less_than_half_of_the_hours_known_there_is_no_figure() -> None:
    share = WINDOWS["median-7d"][1]
    window = timedelta(hours=100)
    assert basis_price([step(0, 49, "2"), step(49, 100, None)], window, share).usd_per_hour is None
    assert basis_price([step(0, 50, "2")], window, share).usd_per_hour == Decimal(2)
    assert basis_price([], window, share).usd_per_hour is None


def test_figures_of_stored_offers_and_the_rows_behind_their_prices(database: Database) -> None:
    source = facts(every_seconds=12 * 3600)
    for at in range(0, 169, 12):
        prices = {"old": "2" if at < 96 else "3"}
        if at >= 120:
            prices["new"] = "5"
        look(database, hour(at), prices, source=source)
    with reading(database) as session:
        offers = {offer.instance_type: offer for offer in current_offers(session, hour(168))}
        ids = [offer.id for offer in offers.values()]
        assert basis_prices(session, ids, "latest", hour(168)) == {}
        # 96 of 168 hours at 2 USD; the new offer is known for 48, the old for a quarter of 30 days.
        assert basis_prices(session, ids, "median-7d", hour(168)) == {offers["old"].id: Decimal(2)}
        assert basis_prices(session, ids, "p90-30d", hour(168)) == {}
        with pytest.raises(InputError, match="price basis"):
            basis_prices(session, ids, "mean", hour(168))
        rows = [offer.price_row for offer in offers.values()]
        assert prices_of_rows(session, [*rows, 999_999]) == {
            offers["old"].price_row: Decimal(3), offers["new"].price_row: Decimal(5),
        }  # fmt: skip
