from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from core.errors import InputError
from core.market import Availability
from db.digests import StoredDigest, store_digest
from db.engine import Database, writing
from db.plans import Repricing, record_repricing, save_plan
from db.records import RunState
from notify.digest.build import revised
from notify.digest.model import Digest, check_name
from notify.digest.statistics import METHOD
from notify.digest.week import Week
from pricing.index import WEEK as A_WEEK
from tests.builders import a_report, an_offer, facts, write
from tests.notify.digest.markets import DAY, SPOT, WEEK, day, listed, monday, told

FORTNIGHT = range(-7, 8)
"""Daily looks from the Monday before the week to the Monday after it."""


def test_a_week_by_hand(sqlite: Database) -> None:
    """Three providers; a cuts 2.00 to 1.80 on Thursday, b stays at 3.00, c came in the week."""
    listed(sqlite, "a", range(-7, 3), {"m": "2.00"})
    listed(sqlite, "a", range(3, 8), {"m": "1.80"})
    listed(sqlite, "b", FORTNIGHT, {"m": "6.00"}, gpu_count=2, region="eu")
    listed(sqlite, "c", range(0, 8), {"m": "0.90"})
    digest = told(sqlite)
    (row,) = digest.rows
    assert (row.gpu, row.form_factor, row.market, row.tier) == (
        "h100-sxm", "SXM", "on_demand", "secure",
    )  # fmt: skip
    # a: Monday 00:00 to Thursday noon at 2.00, as long at 1.80: the median is the lower one
    assert row.median == Decimal("1.8")
    assert (row.p25, row.p75) == (Decimal("1.35"), Decimal("2.4"))
    assert (row.offers, row.providers, row.matched_7d) == (3, 3, 2)
    assert row.change_7d == Decimal("-0.04")  # medians of (2, 3) and (1.8, 3): 2.5 → 2.4
    assert row.change_30d is None
    assert row.cheapest is not None
    assert (row.cheapest.provider, row.cheapest.usd_per_gpu_hour) == ("c", Decimal("0.9"))
    assert row.index == Decimal(96)
    assert row.spark == (None,) * 10 + (Decimal(100), Decimal(96))
    assert (digest.week, digest.state, digest.method) == ("2026-W48", "provisional", METHOD)
    assert (digest.start, digest.end) == (WEEK.start, WEEK.start + A_WEEK)


def test_the_receipt_names_offers_and_runs(sqlite: Database) -> None:
    listed(sqlite, "a", FORTNIGHT, {"m": "2.00", "n": "3.00"})
    digest = told(sqlite)
    (row,) = digest.rows
    assert row.offer_ids == (1, 2)
    (source,) = digest.quality.sources
    # run 1 is of the Monday before, so Monday to Sunday of the week are runs 8 to 14
    assert (source.run_ids, source.good, source.offers) == ((8, 14), 7, 2)
    assert source.last_good == day(6)
    assert not source.stale


def test_what_cannot_be_believed_is_left_out_and_counted(sqlite: Database) -> None:
    listed(sqlite, "good", FORTNIGHT, {"m": "2.00"})
    listed(sqlite, "silent", range(-7, -4), {"m": "1.00"})
    listed(sqlite, "doubtful", range(-7, -4), {"m": "1.00"})
    source = facts("doubtful", every_seconds=86_400)
    write(sqlite, a_report(at=day(2), source=source, state=RunState.SUSPECT))
    write(sqlite, a_report(at=day(3), source=source, state=RunState.FAILED))
    listed(sqlite, "empty", FORTNIGHT, {"m": "1.00"}, availability=Availability.SOLD_OUT)
    listed(sqlite, "vague", FORTNIGHT, {"m": "1.00"}, firm=False)
    write(
        sqlite,
        a_report([an_offer(provider="old", observed_at=day(1))], origin="snapshot",
                 source=facts("old")),
    )  # fmt: skip
    digest = told(sqlite)
    (row,) = digest.rows
    assert (row.offers, row.median) == (1, Decimal(2))
    quality = digest.quality
    assert quality.excluded == {
        "not_firm": 1, "snapshot": 1, "sold_out": 1, "stale": 1, "suspect": 1,
    }  # fmt: skip
    assert (quality.told, quality.offers) == (1, 1)
    assert [s.provider for s in quality.sources if s.stale] == ["doubtful", "silent"]
    assert [(s.suspect, s.failed) for s in quality.sources if s.provider == "doubtful"] == [(1, 1)]
    assert quality.known_share is not None
    assert quality.known_share < 1


def test_an_outlier_is_named_and_left_out(sqlite: Database) -> None:
    for n, provider in enumerate("abcde"):
        listed(sqlite, provider, FORTNIGHT, {"m": f"2.{n}0"})
    listed(sqlite, "typo", FORTNIGHT, {"m": "0.20"})
    digest = told(sqlite)
    (row,) = digest.rows
    assert row.offers == 5
    assert row.cheapest is not None
    assert row.cheapest.provider == "a"
    (outlier,) = digest.quality.outliers
    assert (outlier.place.provider, outlier.series_median) == ("typo", Decimal("2.2"))
    assert digest.quality.excluded == {"outlier": 1}


def test_a_week_without_data_says_so(sqlite: Database) -> None:
    digest = told(sqlite)
    assert not digest.has_data
    assert digest.headline == "No prices were collected in 2026-W48: nothing can be said about it."
    listed(sqlite, "a", [-20], {"m": "2"})
    assert "1 offer: they were not confirmed in the week" in told(sqlite).headline


def test_the_first_week_has_no_changes(sqlite: Database) -> None:
    listed(sqlite, "a", range(0, 8), {"m": "2"})
    digest = told(sqlite)
    assert digest.headline == "First week with prices: H100 SXM5 80GB on demand at $2.00."
    assert digest.moves == ()
    assert digest.new_sources == ("a",)
    assert digest.new.total == 0, "of a new provider everything is new"


def test_offers_that_came_and_went_are_counted_by_provider_and_card(sqlite: Database) -> None:
    listed(sqlite, "a", range(-7, 2), {"stays": "2", "goes": "3", "goes too": "2.5"})
    listed(sqlite, "a", range(2, 8), {"stays": "2", "comes": "4"})
    digest = told(sqlite)
    (new,) = digest.new.groups
    (gone,) = digest.vanished.groups
    assert (new.count, new.cheapest, new.provider) == (1, Decimal(4), "a")
    assert (gone.count, gone.cheapest) == (2, Decimal("2.5"))
    assert (digest.new.total, digest.vanished.total) == (1, 2)
    (row,) = digest.rows
    assert row.change_7d == 0, "what came and went is no change"
    assert row.cheapest is not None
    assert row.cheapest.instance_type == "stays", "what is gone is not the cheapest"
    later = told(sqlite, monday(7), Week.of("2026-W49"))
    assert (later.new.total, later.vanished.total) == (0, 0)


def test_an_offer_that_vanished_in_the_last_look_of_the_week_is_told_once(
    sqlite: Database,
) -> None:
    listed(sqlite, "a", range(-7, 6), {"stays": "2", "goes": "3"})
    listed(sqlite, "a", range(6, 15), {"stays": "2"})
    assert told(sqlite).vanished.total == 1
    assert told(sqlite, monday(7), Week.of("2026-W49")).vanished.total == 0


def test_changed_list_prices_are_told_and_exchange_rates_are_not(sqlite: Database) -> None:
    listed(sqlite, "a", range(-7, 3), {"m": "2.00", "n": "2.00"})
    listed(sqlite, "a", range(3, 8), {"m": "2.50", "n": "2.50"})
    listed(sqlite, "market", range(-7, 3), {"m": "1.00"}, kind="marketplace")
    listed(sqlite, "market", range(3, 8), {"m": "1.10"}, kind="marketplace")
    euro: dict[str, Any] = {"currency": "EUR", "native_price_per_hour": Decimal("1.70")}
    listed(sqlite, "euro", range(-7, 3), {"m": "2.00"}, **euro)
    listed(sqlite, "euro", range(3, 8), {"m": "2.02"}, **euro)
    (change,) = told(sqlite).list_changes
    assert (change.provider, change.before, change.after, change.change) == (
        "a", Decimal(2), Decimal("2.5"), Decimal("0.25"),
    )  # fmt: skip
    assert len(change.offer_ids) == 2


def test_the_widest_spread_and_the_largest_discount(sqlite: Database) -> None:
    listed(sqlite, "a", FORTNIGHT, {"m": "2.00"})
    listed(sqlite, "b", FORTNIGHT, {"m": "3.00", "cheaper": "2.80"})
    listed(sqlite, "c", FORTNIGHT, {"m": "5.00"}, note="resold from thatcloud")
    listed(sqlite, "d", FORTNIGHT, {"m": "9.00"}, gpu="l4", vram_gib=24)
    for provider, spot in (("e", "1.00"), ("f", "0.50")):
        offers = [
            [an_offer(provider=provider, gpu="a10", vram_gib=24, observed_at=day(n)),
             an_offer(provider=provider, gpu="a10", vram_gib=24, observed_at=day(n),
                      purchase_option=SPOT, usd_per_hour=spot, zone="z1")]
            for n in FORTNIGHT
        ]  # fmt: skip
        for pair in offers:
            write(sqlite, a_report(pair, source=facts(provider, every_seconds=86_400)))
    digest = told(sqlite)
    spread, discount = digest.spread, digest.discount
    assert spread is not None
    assert (spread.low.provider, spread.high.provider, spread.ratio, spread.providers) == (
        "a", "c", Decimal("2.5"), 3,
    )  # fmt: skip
    assert spread.high.resold_from == "thatcloud"
    assert discount is not None
    assert (discount.spot.provider, discount.share) == ("f", Decimal("0.75"))


def test_saved_plans_are_told_with_their_new_cost(sqlite: Database) -> None:
    listed(sqlite, "a", FORTNIGHT, {"m": "2.00"})
    with writing(sqlite) as session:
        for plan, saved in (("chat-1234", "1000"), ("code-1234", "500"), ("gone-1234", "70")):
            save_plan(
                session,
                {"plan_id": plan, "inputs": {"name": plan[:4]}, "cost": {"usd_per_month": saved}},
                day(-10),
            )
        looks: list[tuple[str, datetime, str | None, str, bool]] = [
            ("chat-1234", day(-2), "1100", "1100", True),
            ("chat-1234", day(5), "990", "900", False),
            ("gone-1234", day(5), None, "80", False),
            ("code-1234", monday(3), "1", "1", True),
        ]
        for plan, at, usd, best, still in looks:
            cost = None if usd is None else Decimal(usd)
            record_repricing(session, Repricing(plan, at, cost, Decimal(best), still, {}))
    by_name = {plan.name: plan for plan in told(sqlite).plans}
    chat, code, gone = by_name["chat"], by_name["code"], by_name["gone"]
    assert chat.before_usd_per_month == Decimal(1100)
    assert chat.usd_per_month == Decimal(990)
    assert chat.best_usd_per_month == Decimal(900)
    assert chat.still_best is False
    assert code.at is None
    assert code.before_usd_per_month == Decimal(500)
    assert gone.usd_per_month is None
    assert gone.best_usd_per_month == Decimal(80)


def test_significance_needs_twelve_weeks(sqlite: Database) -> None:
    weeks = 13
    for provider in "abc":
        listed(sqlite, provider, range(-7 * weeks, 0, 2), {"m": "2.00", "n": "2.00"})
        listed(sqlite, provider, range(0, 8), {"m": "1.80", "n": "1.80"})
    (move,) = told(sqlite).moves
    assert (move.standing, move.change, move.history_weeks) == ("significant", Decimal("-0.1"), 12)
    assert move.z == pytest.approx(-21.07)  # ln 0.9 / 0.005
    assert (move.offers, move.providers) == (6, 3)
    assert told(sqlite).headline.startswith("H100 SXM5 80GB on demand fell 10 % to $1.80")


def test_a_closed_week_is_told_alike_however_late_it_is_told(sqlite: Database) -> None:
    listed(sqlite, "a", range(-30, 3), {"m": "2.00"})
    listed(sqlite, "a", range(3, 8), {"m": "1.80", "late": "5.00"})
    soon = told(sqlite)
    listed(sqlite, "a", range(8, 60), {"m": "1.80", "late": "5.00"})
    listed(sqlite, "a", range(60, 100), {"m": "7.00", "late": "5.00"})
    late = told(sqlite, day(100))
    assert late.same_as(soon)
    assert late.rows[0].offers == 2


def keep(database: Database, digest: Digest) -> None:
    row = StoredDigest(
        digest.name, digest.week, digest.state, digest.revision, digest.document(), "",
        digest.built_at, None,
    )  # fmt: skip
    with writing(database) as session:
        assert store_digest(session, row, replaces=None)


def test_late_data_are_listed_as_corrections(sqlite: Database) -> None:
    listed(sqlite, "a", FORTNIGHT, {"m": "2.00"})
    first = told(sqlite)
    assert (first.revision, first.corrections) == (1, ())
    keep(sqlite, first)
    assert told(sqlite).revision == 1, "nothing new, nothing to correct"
    listed(sqlite, "b", FORTNIGHT, {"m": "3.00"})
    second = told(sqlite, monday(1) + DAY)
    assert (second.revision, second.state) == (2, "final")
    (correction,) = second.corrections
    assert (correction.figure, correction.was, correction.now, correction.revision) == (
        "median", Decimal(2), Decimal("2.5"), 1,
    )  # fmt: skip
    with writing(sqlite) as session:
        row = StoredDigest(
            second.name, second.week, second.state, 2, second.document(), "", second.built_at, None
        )
        assert store_digest(session, row, replaces=1)
    next_week = told(sqlite, monday(7), Week.of("2026-W49"))
    assert next_week.earlier_corrections == second.corrections


def test_what_a_running_week_told_is_not_corrected(sqlite: Database) -> None:
    listed(sqlite, "a", range(-7, 3), {"m": "2.00"})
    early = told(sqlite, day(2) + timedelta(hours=1))
    assert (early.state, early.until) == ("running", day(2) + timedelta(hours=1))
    listed(sqlite, "a", range(3, 8), {"m": "9.00"})
    late = told(sqlite)
    found = revised(replace(late, revision=0), early)
    assert (found.revision, found.corrections) == (2, ())


def test_the_document_goes_there_and_back(sqlite: Database) -> None:
    listed(sqlite, "a", FORTNIGHT, {"m": "2.00"})
    listed(sqlite, "b", FORTNIGHT, {"m": "3.00"}, note="resold from c")
    digest = told(sqlite)
    document = json.loads(json.dumps(digest.document()))
    assert Digest.of_document(document) == digest
    assert document["rows"][0]["median"] == "2.5"
    assert document["start"] == "2026-11-23T00:00:00Z"
    with pytest.raises(ValueError, match="schema"):
        Digest.of_document({**document, "schema": "spotfloor.other/1"})
    with pytest.raises(ValueError, match="headline"):
        Digest.of_document({**document, "headline": None})


@pytest.mark.parametrize(
    "name", ["2026-W54", "2026-W00", "2025-W53", "26-W01", "2026W48", "", "W" * 5000, "9999-W52"]
)
def test_what_is_no_week_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="write one like 2026-W49"):
        Week.of(name)


def test_weeks_at_the_turn_of_a_year() -> None:
    assert Week.of("2026-w53").name == "2026-W53"
    assert Week.of("2026-W53").end == Week.of("2027-W01").start
    assert Week.closed_before(monday()) == Week.of("2026-W48")
    assert Week.closed_before(monday() - timedelta(seconds=1)) == Week.of("2026-W47")


@pytest.mark.parametrize("name", ["", "a.b", "A", "x" * 33, "-a", "a b"])
def test_a_name_that_cannot_be_part_of_an_id_is_refused(name: str) -> None:
    with pytest.raises(InputError, match="name"):
        check_name(name)
