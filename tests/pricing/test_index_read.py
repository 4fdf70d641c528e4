from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from core.market import Availability, PurchaseOption
from db.engine import Database, reading
from db.records import OfferFilter, RunState
from pricing.index import WEEK, week_start
from pricing.index_read import IndexSeries, read_index
from tests.builders import T0, a_report, an_offer, facts, hour, look, write

NOW = T0 + timedelta(days=9, hours=6)
DAYS = timedelta(days=1)


def index(
    database: Database, weeks: int = 3, **chosen: object
) -> dict[tuple[str, str], IndexSeries]:
    with reading(database) as session:
        market = read_index(session, NOW, OfferFilter(**chosen), weeks=weeks)  # type: ignore[arg-type]
    return {(series.gpu, series.purchase_option): series for series in market.series}


def test_each_gpu_and_purchase_option_has_its_series_per_gpu_hour(database: Database) -> None:
    at = NOW - timedelta(hours=1)
    offers = [
        an_offer(instance_type="one", usd_per_hour="3", observed_at=at),
        an_offer(instance_type="eight", gpu_count="8", usd_per_hour="16", observed_at=at),
        an_offer(instance_type="two", gpu_count="2", usd_per_hour="5", observed_at=at),
        an_offer(
            instance_type="one", usd_per_hour="1", purchase_option=PurchaseOption.SPOT,
            observed_at=at,
        ),
        an_offer(instance_type="l4", gpu="l4", vram_gib="24", usd_per_hour="0.7", observed_at=at),
    ]  # fmt: skip
    write(database, a_report(offers, at=at))
    found = index(database)
    assert sorted(found) == [
        ("h100-sxm", "on_demand"), ("h100-sxm", "spot"), ("l4", "on_demand"),
    ]  # fmt: skip
    h100 = found["h100-sxm", "on_demand"]
    assert h100.now is not None
    assert [h100.now.minimum, h100.now.median] == [Decimal(2), Decimal("2.5")]
    assert (h100.now.offers, h100.now.providers) == (3, 1)
    assert h100.cheapest is not None
    assert (h100.cheapest.instance_type, h100.cheapest.usd_per_hour) == ("eight", Decimal(16))
    assert list(index(database, gpus=["l4"])) == [("l4", "on_demand")]


def test_what_is_stale_suspect_indicative_or_sold_out_is_left_out_and_counted(
    database: Database,
) -> None:
    at = NOW - timedelta(hours=1)
    spot = PurchaseOption.SPOT
    write(
        database,
        a_report(
            [
                an_offer(instance_type="good", usd_per_hour="4", observed_at=at),
                an_offer(instance_type="from", usd_per_hour="1", firm=False, observed_at=at),
                an_offer(
                    instance_type="gone", usd_per_hour="1",
                    availability=Availability.SOLD_OUT, observed_at=at,
                ),
            ],
            at=at,
        ),
    )  # fmt: skip
    for name, back, state in (("old", 25, RunState.OK), ("odd", 2, RunState.OK)):
        seen = NOW - timedelta(hours=back)
        offer = an_offer(provider=name, usd_per_hour="1", purchase_option=spot, observed_at=seen)
        write(database, a_report([offer], at=seen, source=facts(name), state=state))
    write(database, a_report([], at=at, source=facts("odd"), state=RunState.SUSPECT))
    half = [
        an_offer(provider="half", region=region, usd_per_hour="2", observed_at=at)
        for region in ("a", "b")
    ]
    write(database, a_report(half, at=at, source=facts("half")))
    write(
        database,
        a_report(
            half[:1], at=at, source=facts("half"), state=RunState.PARTIAL,
            held=frozenset({("b", "on_demand")}),
        ),
    )  # fmt: skip
    found = index(database)
    firm, on_spot = found["h100-sxm", "on_demand"], found["h100-sxm", "spot"]
    assert firm.left_out == {"not_firm": 1, "sold_out": 1, "suspect": 1}
    assert firm.now is not None
    assert (firm.now.offers, firm.now.median) == (2, Decimal(3))
    assert on_spot.left_out == {"stale": 1, "suspect": 1}
    assert (on_spot.now, on_spot.cheapest) == (None, None)


def test_weeks_are_chained_on_matched_offers_and_holes_are_gaps(database: Database) -> None:
    monday = week_start(NOW)
    for days, prices in (
        (-14, {"a": "1", "b": "2", "c": "3"}),
        (-13.9, {"a": "1", "b": "2", "c": "3"}),
        (-6.9, {"a": "1.2", "b": "2.2"}),
        (-6.8, {"a": "1.2", "b": "2.2", "new": "9"}),
        (-6.7, {"a": "1.2", "b": "2.2", "new": "9"}),
    ):
        look(database, monday + days * DAYS, prices)
    weeks = index(database)["h100-sxm", "on_demand"].weeks
    assert [point.start for point in weeks] == [monday - 2 * WEEK, monday - WEEK, monday]
    first, second, third = weeks
    assert first.section is not None
    assert second.section is not None
    assert (first.section.median, first.level) == (Decimal(2), Decimal(100))
    assert (second.section.offers, second.matched) == (3, 2)
    assert second.change == Decimal("1.7") / Decimal("1.5") - 1, "a and b: 1.50 -> 1.70"
    assert (third.section, third.level) == (None, None), "nobody looked this week"


def test_a_price_that_is_only_indicative_enters_no_week(database: Database) -> None:
    for back in (5, 3):
        at = NOW - timedelta(hours=back)
        write(
            database,
            a_report(
                [
                    an_offer(instance_type="firm", usd_per_hour="4", observed_at=at),
                    an_offer(instance_type="from", usd_per_hour="1", firm=False, observed_at=at),
                ],
                at=at,
            ),
        )
    (point,) = index(database, weeks=1)["h100-sxm", "on_demand"].weeks
    assert point.section is not None
    assert (point.section.offers, point.section.median) == (1, Decimal(4))


def test_the_first_hours_of_the_first_week_are_no_hole(sqlite: Database) -> None:
    monday = week_start(NOW)
    write(
        sqlite,
        a_report(
            [an_offer(observed_at=monday - 90 * DAYS)], at=monday - 90 * DAYS,
            source=facts(every_seconds=86_400),
        ),
    )  # fmt: skip
    for days in (-2, -1, 1):
        at = monday + days * DAYS
        write(
            sqlite, a_report([an_offer(observed_at=at)], at=at, source=facts(every_seconds=86_400))
        )
    (point,) = index(sqlite, weeks=1)["h100-sxm", "on_demand"].weeks
    assert point.section is not None


def test_live_and_bundled_prices_never_mix(sqlite: Database) -> None:
    look(sqlite, hour(0), {"a": "1"}, origin="snapshot")
    assert index(sqlite)["h100-sxm", "on_demand"].now is not None
    look(sqlite, NOW, {"a": "3"})
    section = index(sqlite)["h100-sxm", "on_demand"].now
    assert section is not None
    assert (section.offers, section.median) == (1, Decimal(3))


def test_no_weeks_are_refused(sqlite: Database) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        index(sqlite, weeks=0)
