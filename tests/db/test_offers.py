from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.dialects import sqlite

from core.freshness import Freshness
from core.market import Accelerator, Offer, PurchaseOption, Tier
from db.engine import Database, make_engine, reading
from db.migrate import upgrade
from db.offer_totals import seen_offers, seen_query
from db.offers import (
    count_offers,
    current_offers,
    default_origin,
    history,
    known_regions,
    newest_seen,
    offers_page,
    snapshot_id,
)
from db.records import OfferFilter, RunState, SourceFacts
from db.runs import recent_runs, source_status
from tests.builders import T0, a_report, an_offer, facts, hour, look, write

SPOT = PurchaseOption.SPOT


def store(database: Database, *offers: Offer, source: SourceFacts | None = None) -> None:
    for provider in sorted({offer.provider for offer in offers}):
        own = [offer for offer in offers if offer.provider == provider]
        write(database, a_report(own, source=source or facts(provider)))


def names(database: Database, now: datetime = T0, **wanted: Any) -> list[str]:
    with reading(database) as session:
        return [o.instance_type for o in current_offers(session, now, OfferFilter(**wanted))]


def test_each_filter_keeps_what_fits_and_nothing_else(database: Database) -> None:
    store(
        database,
        an_offer(instance_type="half", gpu_count="0.5", usd_per_hour="1"),
        an_offer(instance_type="eight", gpu_count="8", usd_per_hour="24", purchase_option=SPOT),
        an_offer(instance_type="l4", gpu="l4", vram_gib="24", usd_per_hour="0.5"),
        an_offer(instance_type="host", tier=Tier.COMMUNITY, usd_per_hour="1.5"),
        an_offer(
            instance_type="trn",
            gpu="trainium1",
            accelerator=Accelerator.NEURON,
            vram_gib="32",
            usd_per_hour="1.34",
        ),
        an_offer(instance_type="other", provider="rival", usd_per_hour="9"),
    )
    for wanted, found in (
        ({}, ["l4", "trn", "host", "half", "eight", "other"]),
        ({"providers": ["rival"]}, ["other"]),
        ({"gpus": ["l4", "trainium1"]}, ["l4", "trn"]),
        ({"purchase_options": ["spot"]}, ["eight"]),
        ({"tiers": ["community"]}, ["host"]),
        ({"accelerators": ["neuron"]}, ["trn"]),
        ({"min_gpu_count": Decimal("0.75"), "gpus": ["h100-sxm"]}, ["host", "eight", "other"]),
        ({"max_gpu_count": Decimal("0.5")}, ["half"]),
        ({"min_vram_gib": Decimal(80)}, ["host", "half", "eight", "other"]),
        ({"max_usd_per_gpu_hour": Decimal(2)}, ["l4", "trn", "host", "half"]),
        ({"gpus": ["l4"], "providers": ["rival"]}, []),
    ):
        assert names(database, **wanted) == found, wanted


def test_regions_match_by_prefix_whatever_the_case_and_never_as_wildcards(
    database: Database,
) -> None:
    store(
        database,
        *(
            an_offer(instance_type=region, region=region)
            for region in ("us-east-1", "us-west-2", "eu-west-1", "US_100%_green", "*")
        ),
    )
    for prefixes, found in (
        (["us-"], {"us-east-1", "us-west-2"}),
        (["US"], {"us-east-1", "us-west-2", "US_100%_green"}),
        (["us-east-1", "EU"], {"us-east-1", "eu-west-1"}),
        (["us_"], {"US_100%_green"}),
        (["%"], set()),
        (["_"], set()),
        (["us_100%"], {"US_100%_green"}),
        (["*"], {"*"}),
        (["\\"], set()),
        (["/"], set()),
        (["east"], set()),
        (["us-east-10"], set()),
    ):
        assert set(names(database, regions=prefixes)) == found, prefixes
    with reading(database) as session:
        assert set(known_regions(session)) == {
            "us-east-1", "us-west-2", "eu-west-1", "US_100%_green", "*",
        }  # fmt: skip
        assert known_regions(session, ["nobody"]) == []


@pytest.mark.parametrize("gpus", [[], ["h100-sxm", "l4"]])
def test_pages_put_together_are_all_current_offers_cheapest_gpu_hour_first(
    database: Database, gpus: list[str]
) -> None:
    store(
        database,
        *(
            an_offer(
                instance_type=f"m{number}", gpu_count=str(1 + number % 3),
                usd_per_hour=str(1 + number * 7 % 5),
                purchase_option=SPOT if number % 2 else PurchaseOption.ON_DEMAND,
            )
            for number in range(11)
        ),
        an_offer(instance_type="l4", gpu="l4", vram_gib="24", usd_per_hour="0.5"),
    )  # fmt: skip
    store(
        database,
        an_offer(provider="over", instance_type="x", usd_per_hour="0.1", purchase_option=SPOT),
        source=facts("over", spot_ended_at=T0),
    )
    look(database, hour(1), {"gone": "1"}, source=facts("rival"))
    for wanted in (
        OfferFilter(gpus=gpus),
        OfferFilter(gpus=gpus, purchase_options=["spot"]),
        OfferFilter(gpus=gpus, max_usd_per_gpu_hour=Decimal(2)),
        OfferFilter(gpus=gpus, seen_since=hour(1)),
        OfferFilter(gpus=gpus, providers=["acme"], regions=["nowhere"]),
    ):
        with reading(database) as session:
            whole = current_offers(session, hour(1), wanted)
            paged = [
                offer
                for start in range(0, 15, 4)
                for offer in offers_page(session, hour(1), wanted, limit=4, offset=start)
            ]
            assert count_offers(session, wanted) == len(whole)
        assert paged == whole
        assert [offer.id for offer in paged] == [
            offer.id
            for offer in sorted(
                whole,
                key=lambda o: (
                    o.freshness is Freshness.ENDED, o.usd_per_gpu_hour, o.provider, o.region,
                    o.instance_type, o.id,
                ),
            )
        ]  # fmt: skip
        assert sorted(paged, key=lambda o: o.id) == sorted(whole, key=lambda o: o.id)


def test_live_prices_are_as_of_the_newest_look_that_confirmed_one(database: Database) -> None:
    look(database, hour(1), {"a": "1"}, origin="snapshot")
    look(database, hour(2), {"a": "1"})
    look(database, hour(5), {"a": "1"})
    write(database, a_report(at=hour(7), state=RunState.SUSPECT))
    write(database, a_report(at=hour(8), state=RunState.FAILED))
    with reading(database) as session:
        assert newest_seen(session, "live") == hour(5)
        assert newest_seen(session, "snapshot") == hour(1)
        assert newest_seen(session, "import") is None


def test_the_cheapest_gpu_hour_comes_first_whatever_the_instance_costs(
    database: Database,
) -> None:
    store(
        database,
        an_offer(instance_type="eight", gpu_count="8", usd_per_hour="15.9"),
        an_offer(instance_type="one", usd_per_hour="2"),
        an_offer(instance_type="half", gpu_count="0.5", usd_per_hour="1.01"),
    )
    with reading(database) as session:
        found = current_offers(session, T0)
    assert [(o.instance_type, o.usd_per_gpu_hour) for o in found] == [
        ("eight", Decimal("1.9875")),
        ("one", Decimal(2)),
        ("half", Decimal("2.02")),
    ]


@pytest.mark.parametrize(
    ("kind", "option", "minutes", "expected"),
    [
        ("list", "on_demand", -30, Freshness.FRESH),
        ("list", "on_demand", 24 * 60, Freshness.FRESH),
        ("list", "on_demand", 24 * 60 + 1, Freshness.AGEING),
        ("list", "on_demand", 7 * 24 * 60, Freshness.AGEING),
        ("list", "on_demand", 7 * 24 * 60 + 1, Freshness.STALE),
        ("list", "spot", 120, Freshness.FRESH),
        ("list", "spot", 121, Freshness.AGEING),
        ("list", "spot", 24 * 60, Freshness.AGEING),
        ("list", "spot", 24 * 60 + 1, Freshness.STALE),
        ("marketplace", "on_demand", 120, Freshness.FRESH),
        ("marketplace", "on_demand", 121, Freshness.AGEING),
        ("marketplace", "on_demand", 24 * 60 + 1, Freshness.STALE),
    ],
)
def test_age_classes_depend_on_kind_and_purchase_option(
    sqlite: Database, kind: str, option: str, minutes: int, expected: Freshness
) -> None:
    offer = an_offer(purchase_option=PurchaseOption(option))
    store(sqlite, offer, source=facts(kind=kind))
    with reading(sqlite) as session:
        (found,) = current_offers(session, T0 + timedelta(minutes=minutes))
    assert found.freshness is expected


def test_spot_that_is_no_longer_sold_is_ended_and_comes_last(database: Database) -> None:
    end = datetime(2026, 12, 1, tzinfo=UTC)
    store(
        database,
        an_offer(instance_type="cheap-spot", purchase_option=SPOT, usd_per_hour="0.1"),
        an_offer(instance_type="list", usd_per_hour="5"),
        source=facts(spot_ended_at=end),
    )
    for now, classes in (
        (end - timedelta(minutes=1), [("cheap-spot", "ageing"), ("list", "fresh")]),
        (end, [("list", "fresh"), ("cheap-spot", "ended")]),
    ):
        with reading(database) as session:
            found = current_offers(session, now)
        assert [(o.instance_type, o.freshness.value) for o in found] == classes


def test_bundled_prices_are_shown_until_a_live_one_is_there_and_never_called_fresh(
    database: Database,
) -> None:
    look(database, hour(0), {"bundled": "1"}, origin="snapshot", closing=False)
    with reading(database) as session:
        assert default_origin(session) == "snapshot"
        (only,) = current_offers(session, T0)
    assert (only.instance_type, only.freshness) == ("bundled", Freshness.SNAPSHOT)
    look(database, hour(1), {"live": "2"})
    assert names(database) == ["live"]
    assert names(database, origin="snapshot") == ["bundled"]
    assert names(database, origin="import") == []


def test_an_offer_that_is_gone_is_not_current(database: Database) -> None:
    look(database, hour(0), {"a": "1", "b": "2"})
    look(database, hour(1), {"b": "2"})
    assert names(database, hour(1)) == ["b"]


def test_the_state_of_the_market_is_named_after_the_newest_run_that_wrote(
    database: Database,
) -> None:
    with reading(database) as session:
        assert snapshot_id(session, "live") == "live-0"
        assert newest_seen(session, "live") is None
    first = look(database, hour(0), {"a": "1"})
    write(database, a_report(at=hour(1), state=RunState.FAILED))
    with reading(database) as session:
        assert snapshot_id(session, "live") == f"live-{first.run_id}"
        assert newest_seen(session, "live") == hour(0)
    second = look(database, hour(2), {"a": "1"}, state=RunState.PARTIAL)
    with reading(database) as session:
        assert snapshot_id(session, "live") == f"live-{second.run_id}"
        assert newest_seen(session, "live") == hour(2)


def test_history_is_cut_to_the_stretch_that_was_asked_for(database: Database) -> None:
    for at, price in ((0, "1"), (10, "2"), (20, "3")):
        look(database, hour(at), {"a": price})

    def prices(since: float | None = None, until: float | None = None, **more: Any) -> list[str]:
        with reading(database) as session:
            found = history(
                session,
                OfferFilter(),
                since=None if since is None else hour(since),
                until=None if until is None else hour(until),
                **more,
            )
        return [format(span.usd_per_hour.normalize(), "f") for span in found]

    assert prices() == ["1", "2", "3"]
    assert prices(since=11) == ["2", "3"]
    assert prices(until=9) == ["1"]
    assert prices(since=12, until=15) == ["2"]
    assert prices(since=25) == ["3"], "the open span still holds"
    assert prices(until=-1) == []
    assert prices(limit=2) == ["1", "2"]


def test_the_status_of_a_source_tells_its_last_and_its_last_good_run(database: Database) -> None:
    good = look(database, hour(0), {"a": "1", "b": "2"})
    bad = write(database, a_report(at=hour(1), state=RunState.FAILED, reason="http_500"))
    look(database, hour(0), {"x": "1"}, source=facts("rival"), origin="snapshot")
    with reading(database) as session:
        (status,) = source_status(session)
        runs = recent_runs(session, "acme")
    assert status.facts.name == "acme"
    assert status.last_run is not None
    assert status.last_good is not None
    assert (status.last_run.id, status.last_good.id) == (bad.run_id, good.run_id)
    assert (status.current_offers, status.newest_seen) == (2, hour(0))
    assert [run.id for run in runs] == [bad.run_id, good.run_id]


def test_counting_by_age_starts_at_the_open_spans(tmp_path: Path) -> None:
    """From each offer to all open spans, 100,000 offers would take hours."""
    database = make_engine(f"sqlite:///{tmp_path / 'x.db'}")
    upgrade(database)
    look(database, hour(0), {"a": "1", "b": "2"})
    wanted = OfferFilter(origin="live")
    with reading(database) as session:
        query = seen_query(session, wanted).compile(
            dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True}
        )
        plan = [row[3] for row in session.execute(text(f"EXPLAIN QUERY PLAN {query}"))]
        assert "price_span" in plan[0], plan
        assert plan[1].startswith("SEARCH offer USING INTEGER PRIMARY KEY"), plan
        (group,) = seen_offers(session, wanted)
    database.dispose()
    assert (group.offers, group.last_seen, group.purchase_option) == (2, hour(0), "on_demand")
