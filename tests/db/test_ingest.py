from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from sqlalchemy import func, select, text

from core.gpus import UnknownGpu
from core.market import Availability, EgressTariff, Failure, Parsed, PurchaseOption, Rejected
from db.catalog import sources
from db.engine import Database, make_engine, reading, writing
from db.ingest import open_prices, write_run
from db.migrate import upgrade
from db.models import ObservationRow, OfferRow, PayloadRow, RejectionRow, RunRow, SpanRow, TariffRow
from db.observations import latest_observations
from db.offers import current_offers, history
from db.records import OfferFilter, PayloadFacts, RunState, StoredSpan
from db.runs import recent_runs, rejections
from tests.builders import (
    T0,
    a_report,
    a_tariff,
    an_observation,
    an_offer,
    facts,
    hour,
    look,
    write,
)
from tests.shared import shared

only_postgresql = pytest.mark.parametrize(
    "database_url",
    [pytest.param("postgresql", marks=pytest.mark.postgres)],
    indirect=True,
)
"""SQLite has one writer at a time: there two transactions never wait for each other's rows."""


def spans(database: Database, instance_type: str | None = None) -> list[StoredSpan]:
    with reading(database) as session:
        found = history(session, OfferFilter())
    return [span for span in found if instance_type in (None, span.instance_type)]


def brief(database: Database, name: str = "a") -> list[tuple[str, float, float | None, float, str]]:
    """(price, from, to, last seen, end reason) of an offer's spans, in hours since T0."""

    def hours(value: datetime) -> float:
        return (value - T0) / timedelta(hours=1)

    return [
        (
            format(span.usd_per_hour.normalize(), "f"),
            hours(span.valid_from),
            None if span.valid_to is None else hours(span.valid_to),
            hours(span.last_seen),
            span.end_reason,
        )
        for span in spans(database, name)
    ]


def rows(database: Database, table: type) -> int:
    with reading(database) as session:
        return session.execute(select(func.count()).select_from(table)).scalar_one()


# --- spans hold changes only


def test_an_unchanged_price_keeps_its_span_and_moves_last_seen(database: Database) -> None:
    first = look(database, hour(0), {"a": "2"})
    second = look(database, hour(1), {"a": "2"})
    assert (first.opened, first.kept) == (1, 0)
    assert (second.opened, second.kept, second.closed) == (0, 1, 0)
    assert brief(database) == [("2", 0, None, 1, "")]


def test_the_same_run_written_twice_writes_no_span(database: Database) -> None:
    prices = {"a": "2", "b": "3.5", "c": "0.123456789"}
    look(database, hour(0), prices)
    before = spans(database)
    again = look(database, hour(0), prices)
    assert (again.opened, again.closed, again.kept) == (0, 0, 3)
    assert spans(database) == before
    assert rows(database, RunRow) == 2


def test_a_price_change_closes_one_span_and_opens_the_next_without_a_gap(
    database: Database,
) -> None:
    look(database, hour(0), {"a": "2"})
    look(database, hour(1), {"a": "2"})
    changed = look(database, hour(3), {"a": "2.5"})
    assert (changed.opened, changed.closed) == (1, 0)
    assert brief(database) == [("2", 0, 3, 1, "changed"), ("2.5", 3, None, 3, "")]


def test_a_change_of_stock_alone_opens_a_span(database: Database) -> None:
    for number, stock in enumerate((Availability.AVAILABLE, Availability.SOLD_OUT)):
        at = hour(number)
        write(
            database,
            a_report([an_offer(instance_type="a", availability=stock, observed_at=at)]),
        )
    assert [span.availability for span in spans(database)] == ["available", "sold_out"]


def test_a_vanished_offer_ends_as_gone_and_may_return(database: Database) -> None:
    look(database, hour(0), {"a": "2", "b": "1"})
    assert look(database, hour(1), {"b": "1"}).closed == 1
    assert brief(database) == [("2", 0, 1, 0, "gone")]
    assert look(database, hour(2), {"b": "1"}).closed == 0, "it ends once"
    assert look(database, hour(5), {"a": "2", "b": "1"}).opened == 1
    assert brief(database) == [("2", 0, 1, 0, "gone"), ("2", 5, None, 5, "")]
    assert rows(database, OfferRow) == 2, "a returning offer is the same offer"


def test_words_about_an_offer_change_without_a_new_span(database: Database) -> None:
    write(database, a_report([an_offer(note="old", ram_gib="96", vram_gib="79.6471")]))
    later = an_offer(note="new", ram_gib="128", vram_gib="79.6471", observed_at=hour(1))
    write(database, a_report([later]))
    with reading(database) as session:
        (offer,) = current_offers(session, hour(1))
    assert (offer.note, offer.ram_gib) == ("new", Decimal(128))
    assert offer.vram_gib == Decimal("79.647")
    assert len(spans(database)) == 1


def test_origins_never_touch_each_other(database: Database) -> None:
    look(database, hour(0), {"a": "2"})
    look(database, hour(1), {"b": "3"}, origin="snapshot")
    assert brief(database, "a") == [("2", 0, None, 0, "")]
    assert brief(database, "b") == [("3", 1, None, 1, "")]


def test_an_additive_run_ends_nothing(database: Database) -> None:
    look(database, hour(0), {"a": "2", "b": "1"})
    assert look(database, hour(1), {"b": "1"}, closing=False).closed == 0
    assert brief(database) == [("2", 0, None, 0, "")]


# --- what is held


def test_held_scopes_stay_open_and_are_not_replaced(database: Database) -> None:
    spot = PurchaseOption.SPOT
    write(
        database,
        a_report(
            [
                an_offer(instance_type="held-listed", region="r1", purchase_option=spot),
                an_offer(instance_type="held-missing", region="r1", purchase_option=spot),
                an_offer(instance_type="other-option", region="r1"),
                an_offer(instance_type="other-region", region="r2", purchase_option=spot),
            ]
        ),
    )
    again = an_offer(
        instance_type="held-listed",
        region="r1",
        purchase_option=spot,
        usd_per_hour="9",
        observed_at=hour(1),
    )
    result = write(
        database,
        a_report([again], state=RunState.PARTIAL, held=frozenset({("r1", "spot")})),
    )
    assert (result.opened, result.closed, result.kept) == (0, 2, 0)
    assert brief(database, "held-listed") == [("2", 0, None, 0, "")]
    assert brief(database, "held-missing") == [("2", 0, None, 0, "")]
    assert brief(database, "other-option") == [("2", 0, 1, 0, "gone")]
    assert brief(database, "other-region") == [("2", 0, 1, 0, "gone")]
    with reading(database) as session:
        assert recent_runs(session)[0].held_scopes == "r1/spot"


def test_a_held_key_keeps_its_price_while_its_neighbours_move_on(database: Database) -> None:
    look(database, hour(0), {"a": "2", "b": "1"})
    held = frozenset({an_offer(instance_type="a").key})
    look(database, hour(1), {"b": "4"}, held_keys=held)
    look(database, hour(2), {"a": "9", "b": "4"}, held_keys=held)
    assert brief(database, "a") == [("2", 0, None, 0, "")], "neither ended nor replaced"
    assert brief(database, "b") == [("1", 0, 1, 0, "changed"), ("4", 1, None, 2, "")]


# --- what is older


def test_an_older_observation_changes_nothing(database: Database) -> None:
    look(database, hour(0), {"a": "2"})
    look(database, hour(5), {"a": "3"})
    before = spans(database)
    late = look(database, hour(4), {"a": "2"})
    assert (late.opened, late.closed, late.kept, late.older) == (0, 0, 0, 1)
    assert spans(database) == before


def test_an_older_run_ends_nothing_that_was_seen_after_it(database: Database) -> None:
    look(database, hour(5), {"a": "2", "b": "1"})
    assert look(database, hour(4), {"b": "1"}).closed == 0
    assert brief(database, "a") == [("2", 5, None, 5, "")]


@pytest.mark.parametrize("closing", [True, False])
def test_an_older_observation_does_not_revive_an_offer_that_is_gone(
    database: Database, closing: bool
) -> None:
    look(database, hour(2), {"a": "2", "b": "1"})
    look(database, hour(4), {"b": "1"})
    late = look(database, hour(1), {"a": "7", "b": "1"}, closing=closing)
    assert (late.opened, late.older) == (0, 2)
    assert brief(database, "a") == [("2", 2, 4, 2, "gone")]


def test_an_older_run_adds_no_offer_that_a_later_one_did_not_list(database: Database) -> None:
    look(database, hour(1), {"a": "2", "b": "1"})
    look(database, hour(4), {"b": "1"})
    look(database, hour(8), {"b": "1"})
    late = look(database, hour(6), {"a": "2", "b": "1", "new": "3"})
    assert (late.opened, late.older) == (0, 3)
    assert brief(database, "new") == []
    assert brief(database, "a") == [("2", 1, 4, 1, "gone")]


def test_additive_loads_may_bring_older_offers(database: Database) -> None:
    look(database, hour(8), {"b": "1"}, closing=False, origin="snapshot")
    look(database, hour(6), {"a": "2"}, closing=False, origin="snapshot")
    assert brief(database, "a") == [("2", 6, None, 6, "")]


def test_several_observations_in_one_additive_load_make_spans_in_order(
    database: Database,
) -> None:
    offers = [
        an_offer(instance_type=name, usd_per_hour=price, observed_at=hour(at))
        for name, at, price in (
            ("a", 48, "3"),
            ("a", 0, "2"),
            ("b", 1, "1"),
            ("a", 24, "2"),
            ("a", 72, "2"),
        )
    ]
    result = write(database, a_report(offers, origin="snapshot", closing=False))
    assert (result.opened, result.kept) == (4, 1)
    assert brief(database, "a") == [
        ("2", 0, 48, 24, "changed"),
        ("3", 48, 72, 48, "changed"),
        ("2", 72, None, 72, ""),
    ]
    before = spans(database)
    again = write(database, a_report(offers, origin="snapshot", closing=False))
    assert (again.opened, again.closed) == (0, 0)
    assert spans(database) == before


# --- runs that are not believed


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.SUSPECT, RunState.SKIPPED])
def test_a_run_that_is_not_believed_stores_only_itself_and_its_rejections(
    database: Database, state: RunState
) -> None:
    look(database, hour(0), {"a": "2"})
    before = spans(database)
    parsed = Parsed(
        offers=[an_offer(instance_type="a", usd_per_hour="16", observed_at=hour(1))],
        rejected=[Rejected("zero_price", "free?", "row 7", "page.json", 3)],
        failures=[Failure("truncated", "half a body", "rest.json")],
        egress=[a_tariff(observed_at=hour(1))],
        observations=[an_observation(observed_at=hour(1))],
    )
    report = a_report(
        at=hour(1), state=state, reason="prices_moved", detail="x8", parsed=parsed,
        fetch_failures=[Failure("http_500", "region gone", "eu.json")],
        payloads=[PayloadFacts("page.json", "https://acme.example", "0" * 64, 9, hour(1))],
    )  # fmt: skip
    result = write(database, report)
    assert (result.opened, result.closed, result.kept) == (0, 0, 0)
    assert spans(database) == before
    assert (rows(database, TariffRow), rows(database, ObservationRow)) == (0, 0)
    assert rows(database, PayloadRow) == 1
    with reading(database) as session:
        run = recent_runs(session)[0]
        stored = rejections(session, result.run_id)
    assert (run.state, run.reason, run.detail) == (state.value, "prices_moved", "x8")
    assert (run.offers, run.rejected, run.failures) == (1, 3, 2)
    assert [(item.reason, item.count, item.whole_payload) for item in stored] == [
        ("truncated", 1, True),
        ("http_500", 1, True),
        ("zero_price", 3, False),
    ]


def test_rejections_keep_twenty_excerpts_per_reason_and_file_and_the_counts_add_up(
    database: Database,
) -> None:
    parsed = Parsed(
        rejected=[
            *(Rejected("zero_price", "", f"row {n}", "one.json", 1 + n % 3) for n in range(500)),
            *(Rejected("zero_price", "", f"row {n}", "two.json") for n in range(20)),
            *(Rejected("unknown_gpu", "", f"row {n}", "one.json") for n in range(21)),
        ]
    )
    result = write(database, a_report(at=T0, state=RunState.FAILED, parsed=parsed))
    with reading(database) as session:
        stored = rejections(session, result.run_id)
        run = recent_runs(session)[0]
    kept = [item for item in stored if item.excerpt]
    excerpts = [(item.reason, item.source_file) for item in kept]
    assert excerpts.count(("zero_price", "one.json")) == 20
    assert excerpts.count(("zero_price", "two.json")) == 20
    assert excerpts.count(("unknown_gpu", "one.json")) == 20
    total = sum(1 + n % 3 for n in range(500)) + 20 + 21
    assert sum(item.count for item in stored) == run.rejected == total


def test_texts_that_a_database_refuses_do_not_cost_the_run(database: Database) -> None:
    nasty = "a\x00b\ud800c" + "x" * 3000
    parsed = Parsed(
        offers=[an_offer(note=nasty, offer_id=nasty)],
        rejected=[Rejected("bad_value", nasty, nasty, nasty)],
        failures=[Failure("bad_json", nasty, nasty)],
    )
    write(database, a_report(at=T0, detail=nasty, parsed=parsed))
    with reading(database) as session:
        assert len(current_offers(session, T0)) == 1


# --- values survive


@pytest.mark.parametrize(
    "price", ["0.001", "0.123456789", "1.0000000005", "1.0000000015", "27.1999999", "199.999999999"]
)
def test_prices_come_back_to_the_nano_dollar_and_repeat_as_unchanged(
    database: Database, price: str
) -> None:
    offer = an_offer(
        usd_per_hour=price,
        egress_usd_per_gb="0.0123456789012",
        currency="EUR",
        native_price_per_hour="1.2345678905",
    )
    write(database, a_report([offer]))
    assert write(database, a_report([offer])).opened == 0
    with reading(database) as session:
        (stored,) = current_offers(session, T0)
        prices = open_prices(session, "acme", "live")
    assert stored.usd_per_hour == Decimal(price).quantize(Decimal("1e-9"))
    assert stored.native_price_per_hour == Decimal("1.234567890")
    assert stored.egress_usd_per_gb == Decimal("0.012345679")
    assert prices == {offer.key: stored.usd_per_hour}


def test_every_stated_fact_of_an_offer_comes_back(database: Database) -> None:
    offer = an_offer(
        region="eu-1", zone="eu-1a", offer_id="77", gpu_count="0.5", vcpu=12, ram_gib="46.5",
        purchase_option=PurchaseOption.SPOT, availability=Availability.LIMITED,
        egress_usd_per_gb="0", ingress_usd_per_gb="0.02", min_term_hours=24, firm=False,
        note="per host",
    )  # fmt: skip
    write(database, a_report([offer]))
    with reading(database) as session:
        (stored,) = current_offers(session, T0)
    for name in (
        "provider", "region", "zone", "instance_type", "offer_id", "gpu", "gpu_count", "vram_gib",
        "vcpu", "ram_gib", "purchase_option", "usd_per_hour", "currency", "native_price_per_hour",
        "availability", "egress_usd_per_gb", "ingress_usd_per_gb", "min_term_hours", "firm",
        "note", "source_url", "observed_at", "tier", "usd_per_gpu_hour",
    ):  # fmt: skip
        assert getattr(stored, name) == getattr(offer, name), name


def test_observations_are_written_when_they_change(database: Database) -> None:
    def tell(at: float, low: str) -> None:
        item = an_observation(low=Decimal(low), observed_at=hour(at))
        write(database, a_report(at=hour(at), parsed=Parsed(observations=[item])))

    for at, low in ((0, "0.05"), (1, "0.05"), (2, "0.0001"), (3, "0.05"), (1, "0.09")):
        tell(at, low)
    assert rows(database, ObservationRow) == 3
    with reading(database) as session:
        (latest,) = latest_observations(session)
    assert (latest.low, latest.observed_at) == (Decimal("0.05"), hour(3))


def test_of_two_observations_in_one_run_the_newer_is_kept_whatever_their_order(
    database: Database,
) -> None:
    pair = [
        an_observation(low=Decimal("0.01"), observed_at=hour(2)),
        an_observation(low=Decimal("0.02"), observed_at=hour(1)),
    ]
    write(database, a_report(at=hour(2), parsed=Parsed(observations=pair)))
    with reading(database) as session:
        assert [item.low for item in latest_observations(session)] == [Decimal("0.01")]


# --- known bug: a key column that is empty


def test_offers_without_a_region_are_updated_and_not_added_again(database: Database) -> None:
    case = json.loads(shared("cases", "b12_upsert_rows.json").read_text(), parse_float=Decimal)
    for scrape in [*case["scrapes"], case["scrapes"][-1]]:
        at = datetime.fromisoformat(scrape["at"])
        offers = [
            an_offer(
                provider=row["provider"],
                gpu="rtx-4090",
                vram_gib="24",
                instance_type=row["instance"],
                usd_per_hour=row["usd_hour"],
                region=row["region"] or "*",
                zone=row["zone"] or "",
                observed_at=at,
            )
            for row in scrape["rows"]
        ]
        write(database, a_report(offers, source=facts("marketplace-a", "marketplace")))
    with reading(database) as session:
        (now,) = current_offers(session, at)
    assert now.usd_per_hour == Decimal("0.35")
    assert [(span.usd_per_hour, span.end_reason) for span in spans(database)] == [
        (Decimal("0.34"), "changed"),
        (Decimal("0.35"), ""),
    ]


# --- all or nothing, and several writers


def test_a_transaction_that_raises_midway_leaves_nothing(database: Database) -> None:
    class Torn(RuntimeError):
        pass

    def tear() -> None:
        with writing(database) as session:
            write_run(session, a_report([an_offer()], parsed=Parsed(offers=[an_offer()])))
            raise Torn

    with pytest.raises(Torn):
        tear()
    with pytest.raises(UnknownGpu):
        write(database, a_report([an_offer(), an_offer(gpu="no-such-gpu", instance_type="z")]))
    for table in (RunRow, OfferRow, SpanRow, RejectionRow, PayloadRow):
        assert rows(database, table) == 0
    with reading(database) as session:
        assert sources(session) == {}


def _together(*works: Callable[[], None]) -> list[BaseException]:
    gate = threading.Barrier(len(works))
    raised: list[BaseException] = []

    def run(work: Callable[[], None]) -> None:
        try:
            gate.wait(30)
            work()
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=run, args=(work,)) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not any(thread.is_alive() for thread in threads)
    return raised


def test_two_threads_that_write_one_provider_lose_nothing(database: Database) -> None:
    names = [f"m{number}" for number in range(40)]

    def write_looks(first: int) -> Callable[[], None]:
        def work() -> None:
            for step in range(first, 20, 2):
                look(database, hour(step), dict.fromkeys(names, f"{1 + step}"))

        return work

    assert _together(write_looks(0), write_looks(1)) == []
    assert rows(database, RunRow) == 20
    assert rows(database, OfferRow) == 40
    for name in names:
        own = spans(database, name)
        assert [span.valid_to for span in own].count(None) == 1
        assert own[-1].usd_per_hour == 20, "the newest look is the current price"
        for earlier, later in pairwise(own):
            assert earlier.valid_to == later.valid_from
    with reading(database) as session:
        runs = recent_runs(session)
    assert sum(run.spans_opened for run in runs) == len(spans(database))


@only_postgresql
def test_providers_that_share_cards_write_at_the_same_time(database: Database) -> None:
    """The second writer of a shared GPU row waits for the first and goes on."""
    raised: list[BaseException] = []

    def second() -> None:
        try:
            write(
                database,
                a_report([an_offer(provider="other")], source=facts("other")),
            )
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=second)
    with writing(database) as session:
        write_run(session, a_report([an_offer()]))
        thread.start()
        _until(lambda: _waiting_backends(database) == 1)
    thread.join(30)
    assert raised == []
    assert {span.provider for span in spans(database)} == {"acme", "other"}


@only_postgresql
def test_live_and_bundled_prices_of_a_new_provider_may_be_written_at_the_same_time(
    database: Database,
) -> None:
    raised: list[BaseException] = []

    def second() -> None:
        try:
            write(database, a_report([an_offer()], origin="snapshot", closing=False))
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=second)
    with writing(database) as session:
        write_run(session, a_report([an_offer()]))
        thread.start()
        _until(lambda: _waiting_backends(database) == 1)
    thread.join(30)
    assert raised == []
    assert sorted(span.origin for span in spans(database)) == ["live", "snapshot"]


def _waiting_backends(database: Database) -> int:
    with database.connect() as connection:
        waiting: int = connection.execute(
            text(
                "SELECT count(*) FROM pg_stat_activity"
                " WHERE datname = current_database() AND wait_event_type = 'Lock'"
            )
        ).scalar_one()
    return waiting


def _until(condition: Callable[[], bool]) -> None:
    limit = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < limit, "the second writer never came to wait"


# --- the law: spans are what a naive list of looks says

Look = tuple[int, dict[str, int]]
"""(hour, price in cents by offer): what a complete run listed."""


class Naive:
    """The oracle: remembers every believed statement, and derives spans by going through them.

    A look counts for an offer when it is not older than the last thing known about it: its last
    statement, its end, and, for an offer that is not listed now, the newest complete look.
    """

    def __init__(self) -> None:
        self.statements: dict[str, list[tuple[int, int | None]]] = {}
        self.newest = -1

    def look(self, at: int, prices: dict[str, int]) -> None:
        for name, cents in prices.items():
            told = self.statements.setdefault(name, [])
            listed_now = bool(told) and told[-1][1] is not None
            if told and at < told[-1][0]:
                continue
            if not listed_now and at < self.newest:
                continue
            if listed_now and told[-1][1] != cents and at <= self._since(told):
                continue
            told.append((at, cents))
        for name, told in self.statements.items():
            if name not in prices and told and told[-1][1] is not None and told[-1][0] < at:
                told.append((at, None))
        self.newest = max(self.newest, at)

    @staticmethod
    def _since(told: list[tuple[int, int | None]]) -> int:
        since, price = told[-1]
        for at, cents in reversed(told):
            if cents != price:
                break
            since = at
        return since

    def spans(self, name: str) -> list[tuple[str, float, float | None, float, str]]:
        made: list[tuple[str, float, float | None, float, str]] = []
        price: int | None = None
        since = seen = 0
        for at, cents in self.statements.get(name, []):
            if cents != price:
                if price is not None:
                    end = "gone" if cents is None else "changed"
                    made.append((str(price), since, at, seen, end))
                since, price = at, cents
            seen = at
        if price is not None:
            made.append((str(price), since, None, seen, ""))
        return made


LOOKS = st.lists(
    st.tuples(
        st.integers(0, 8),
        st.dictionaries(st.sampled_from("abc"), st.integers(1, 3), max_size=3),
    ),
    min_size=1,
    max_size=12,
)


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Database:
    engine = make_engine(f"sqlite:///{tmp_path_factory.mktemp('law') / 'law.db'}")
    upgrade(engine)
    return engine


_providers = iter(range(10**9))


@hypothesis_settings(max_examples=150)
@given(looks=LOOKS)
def test_stored_spans_equal_a_naive_list_of_looks(scratch: Database, looks: list[Look]) -> None:
    provider = f"p{next(_providers)}"
    naive = Naive()
    for at, prices in looks:
        offers = [
            an_offer(
                provider=provider, instance_type=name, usd_per_hour=price, observed_at=hour(at)
            )
            for name, price in prices.items()
        ]
        write(scratch, a_report(offers, at=hour(at), source=facts(provider)))
        naive.look(at, prices)
    with reading(scratch) as session:
        stored = history(session, OfferFilter(providers=[provider]))
    for name in "abc":
        own = [span for span in stored if span.instance_type == name]
        told = [
            (
                format(span.usd_per_hour.normalize(), "f"),
                (span.valid_from - T0) / timedelta(hours=1),
                None if span.valid_to is None else (span.valid_to - T0) / timedelta(hours=1),
                (span.last_seen - T0) / timedelta(hours=1),
                span.end_reason,
            )
            for span in own
        ]
        assert told == naive.spans(name)
        assert sum(span.valid_to is None for span in own) <= 1
        for earlier, later in pairwise(own):
            assert earlier.valid_to is not None
            assert earlier.valid_from < earlier.valid_to <= later.valid_from
            assert earlier.last_seen <= earlier.valid_to


def test_a_tariff_in_a_run_is_stored_with_it(database: Database) -> None:
    tariff: EgressTariff = a_tariff()
    write(database, a_report([an_offer()], parsed=Parsed(offers=[an_offer()], egress=[tariff])))
    assert rows(database, TariffRow) == 1


def test_the_database_itself_refuses_a_second_open_span(database: Database) -> None:
    look(database, hour(0), {"a": "2"})
    copy = (
        "INSERT INTO price_span (id, offer_id, usd_per_hour, currency, native_per_hour,"
        " availability, valid_from, last_seen, end_reason, run_id)"
        " SELECT 999, offer_id, usd_per_hour, currency, native_per_hour, availability, valid_from,"
        " last_seen, end_reason, run_id FROM price_span"
    )
    with pytest.raises(Exception, match=r"(?i)unique"), database.begin() as connection:
        connection.execute(text(copy))


def test_a_sqlite_file_in_a_new_folder_is_made(tmp_path: Path) -> None:
    engine = make_engine(f"sqlite:///{tmp_path / 'new' / 'deep' / 'x.db'}")
    upgrade(engine)
    assert look(engine, hour(0), {"a": "2"}).opened == 1
    engine.dispose()
