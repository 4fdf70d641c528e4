from __future__ import annotations

from datetime import datetime, timedelta
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from db.engine import Database, reading
from db.looks import looks
from db.offers import history
from db.records import OfferFilter, RunState, StoredSpan
from service.history import lowest_series, series_of
from tests.builders import a_report, an_offer, facts, hour, look, write


def a_span(
    start: float, end: float | None, seen: float, usd: int, reason: str = "", offer: int = 1
) -> StoredSpan:
    return StoredSpan(
        offer=offer, provider="acme", tier="secure", region="us", zone="", instance_type="m",
        gpu="h100-sxm", gpu_count=Decimal(1), purchase_option="spot", usd_per_hour=Decimal(usd),
        availability="unknown", valid_from=hour(start),
        valid_to=None if end is None else hour(end), last_seen=hour(seen), end_reason=reason,
        origin="live", source_url="https://acme.example",
    )  # fmt: skip


@st.composite
def timelines(draw: st.DrawFn) -> list[StoredSpan]:
    """Spans of one offer in whole hours, each followed by a change, or by a hole."""
    spans: list[StoredSpan] = []
    at = 0
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.integers(1, 9))
        seen = at + draw(st.integers(0, length))
        reason = draw(st.sampled_from(["changed", "gone"]))
        spans.append(a_span(at, at + length, seen, draw(st.integers(1, 5)), reason))
        at += length + (draw(st.integers(0, 5)) if reason == "gone" else 0)
    if draw(st.booleans()):
        spans.append(a_span(at, None, at + draw(st.integers(0, 9)), draw(st.integers(1, 5))))
    return spans


def known_hours(spans: list[StoredSpan], since: datetime, until: datetime) -> list[Decimal]:
    """The price of every single hour in which it was known: the slow way."""
    prices = []
    for number in range(200):
        at = hour(number + 0.5)
        for span in spans:
            end = span.valid_to if span.end_reason == "changed" else span.last_seen
            assert end is not None
            if since <= at < until and span.valid_from <= at < end:
                prices.append(span.usd_per_hour)
    return prices


@given(spans=timelines(), start=st.integers(0, 30), length=st.integers(1, 60))
def test_the_median_over_time_is_that_of_every_known_hour(
    spans: list[StoredSpan], start: int, length: int
) -> None:
    since, until = hour(start), hour(start + length)
    hours = sorted(known_hours(spans, since, until))
    (series,) = series_of(spans, since, until)
    assert series["observed_hours"] == len(hours)
    if hours:
        median = series["median_usd_per_hour"]
        assert sum(price <= median for price in hours) * 2 >= len(hours)
        assert sum(price >= median for price in hours) * 2 >= len(hours)
        assert median == hours[(len(hours) - 1) // 2], "of two middle hours the cheaper counts"


def test_a_hole_counts_for_nothing() -> None:
    spans = [
        a_span(0, 100, 10, 1, "gone"),
        a_span(100, None, 111, 2),
    ]
    (series,) = series_of(spans)
    assert series["observed_hours"] == 21, "ten hours at 1, eleven at 2, 90 unknown"
    assert series["median_usd_per_hour"] == 2
    assert (series["first_at"], series["last_at"]) == (hour(0), hour(111))
    assert (series["ended_at"], series["end_reason"]) == (None, "")


def test_time_up_to_a_change_counts_for_the_old_price() -> None:
    spans = [a_span(0, 6, 5, 1, "changed"), a_span(6, None, 10, 2)]
    (series,) = series_of(spans)
    assert series["observed_hours"] == 10
    assert series["median_usd_per_hour"] == 1


def test_only_the_stretch_asked_for_is_counted() -> None:
    spans = [a_span(0, 6, 5, 1, "changed"), a_span(6, None, 10, 2)]
    (series,) = series_of(spans, hour(5), hour(8))
    assert series["observed_hours"] == 3
    assert series["median_usd_per_hour"] == 2


def test_each_offer_has_its_own_series_and_price_changes_are_counted_not_spans() -> None:
    spans = [
        a_span(0, 2, 1, 5, "gone", offer=1),
        a_span(4, 6, 5, 5, "changed", offer=1),
        a_span(6, None, 7, 3, offer=1),
        a_span(0, None, 9, 9, offer=2),
    ]
    first, second = series_of(spans)
    assert (first["price_changes"], second["price_changes"]) == (1, 0)
    assert (first["min_usd_per_hour"], first["max_usd_per_hour"]) == (3, 5)
    assert first["last_usd_per_hour"] == 3
    assert series_of([]) == []


def test_a_price_seen_once_still_has_a_median() -> None:
    (series,) = series_of([a_span(0, None, 0, 4)])
    assert (series["observed_hours"], series["median_usd_per_hour"]) == (0, 4)


def test_stored_looks_become_the_series_that_was_seen(database: Database) -> None:
    for at, price in ((0, "2"), (1, "2"), (2, "3"), (9, "3")):
        look(database, hour(at), {"a": price, "b": "1"})
    look(database, hour(10), {"b": "1"})
    with reading(database) as session:
        found = history(session, OfferFilter(), since=hour(1), until=hour(10))
    series = {item["instance_type"]: item for item in series_of(found, hour(1), hour(10))}
    assert series["a"]["observed_hours"] == 8
    assert series["a"]["median_usd_per_hour"] == 3
    assert (series["a"]["end_reason"], series["a"]["ended_at"]) == ("gone", hour(10))
    assert series["b"]["observed_hours"] == 9


LIVE = [("acme", "live")]


def test_a_hole_between_two_looks_is_unknown_though_the_price_was_the_same_at_both_ends(
    database: Database,
) -> None:
    for at in (0, 1, 2, 9, 10):
        look(database, hour(at), {"a": "2"})
    with reading(database) as session:
        found = history(session, OfferFilter())
        seen = looks(session, LIVE)
    (series,) = series_of(found, looks=seen)
    assert (series["observed_hours"], series["unknown_hours"]) == (3, 7)
    assert series["gaps"] == [
        {"from": hour(2), "to": hour(9), "hours": 7, "kind": "unknown"},
    ], "the source is read every hour; seven hours without a look are a hole"
    (patient,) = series_of(found, looks=seen, hole=timedelta(hours=7))
    assert (patient["observed_hours"], patient["gaps"]) == (10, [])


def test_a_look_that_was_not_believed_or_held_the_scope_is_no_look(database: Database) -> None:
    look(database, hour(0), {"a": "2"})
    write(database, a_report([], at=hour(2), state=RunState.FAILED))
    write(database, a_report([], at=hour(4), state=RunState.SUSPECT))
    write(
        database,
        a_report([], at=hour(5), state=RunState.PARTIAL, held=frozenset({("*", "on_demand")})),
    )
    look(database, hour(6), {"a": "2"})
    with reading(database) as session:
        found = history(session, OfferFilter())
        seen = looks(session, LIVE)
    assert seen["acme", "live"].at == (hour(0), hour(5), hour(6))
    (series,) = series_of(found, looks=seen)
    assert (series["observed_hours"], series["unknown_hours"]) == (0, 6)


def test_looks_are_those_of_the_stretch_and_of_sources_with_a_timetable(
    database: Database,
) -> None:
    for at in range(5):
        look(database, hour(at), {"a": "2"})
    look(database, hour(3), {"a": "2"}, origin="snapshot", source=facts("acme"))
    look(database, hour(3), {"a": "2"}, origin="import", source=facts("acme"))
    with reading(database) as session:
        seen = looks(
            session, [*LIVE, ("acme", "snapshot"), ("acme", "import")],
            since=hour(1), until=hour(3),
        )  # fmt: skip
        assert looks(session, [("acme", "snapshot")]) == {}
    assert seen["acme", "live"].at == (hour(1), hour(2), hour(3))
    assert seen["acme", "live"].every_seconds == 3600
    assert (seen["acme", "import"].at, seen["acme", "import"].every_seconds) == ((hour(3),), 0)


def test_a_scope_whose_region_holds_a_blank_is_held_all_the_same(database: Database) -> None:
    held = frozenset({("US, Ohio", "spot"), ("eu", "on_demand")})
    write(database, a_report([], at=hour(1), state=RunState.PARTIAL, held=held))
    with reading(database) as session:
        seen = looks(session, LIVE)["acme", "live"]
    assert seen.of_scope("US, Ohio", "spot") == []
    assert seen.of_scope("eu", "on_demand") == []
    assert seen.of_scope("Ohio", "spot") == [hour(1)]


def test_the_lowest_price_is_per_gpu_and_its_share_of_hours_is_that_of_any_offer(
    sqlite: Database,
) -> None:
    for at, one, eight in ((0, "3", "16"), (4, "3", "32"), (8, "1", "32"), (10, "1", "32")):
        offers = [
            an_offer(instance_type="one", usd_per_hour=one, observed_at=hour(at)),
            an_offer(
                instance_type="eight", gpu_count="8", usd_per_hour=eight, observed_at=hour(at)
            ),
        ]
        write(sqlite, a_report(offers, at=hour(at)))
    with reading(sqlite) as session:
        found = history(session, OfferFilter())
    (lowest,) = lowest_series(found, under=Decimal(2))
    assert lowest["offers"] == 2
    assert lowest["observed_hours"] == 10
    # 2 USD (the eight) for 4 h, 3 USD (the one) for 4 h, 1 USD (the one) for 2 h.
    assert lowest["share_of_hours_at_or_under"] == 0.6
    assert [lowest[f"{name}_usd_per_gpu_hour"] for name in ("min", "median", "max")] == [1, 2, 3]
    shares = {
        series["instance_type"]: series["share_of_hours_at_or_under"]
        for series in series_of(found, under=Decimal(2))
    }
    assert shares == {"one": 0.2, "eight": 0.4}, "the price asked about is per GPU"
