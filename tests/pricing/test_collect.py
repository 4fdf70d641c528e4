from __future__ import annotations

import hashlib
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from pathlib import Path

import pytest

from core.clock import FixedClock
from core.errors import ConfigError, DatabaseError, SourceError
from core.market import Failure, Parsed
from db.engine import Database, make_engine, reading
from db.ingest import open_prices
from db.offers import history
from db.records import OfferFilter, RunState, StoredRun, StoredSpan
from db.runs import payload_known, recent_runs, rejections
from pricing import run as runs
from pricing.collect import Answers, RunSummary, Traffic, collect, given, skip
from pricing.rows import RowLog, load_json, page_problem
from pricing.run import collect_recorded
from pricing.source import Payload, Provider
from tests.builders import a_payload, a_provider, a_tariff, an_offer, hour, look
from tests.shared import ROOT, shared


def parse_json(payloads: Sequence[Payload]) -> Parsed:
    """A parser as the real ones are: total, one price per key."""
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        document = load_json(log)
        for name, usd in (document or {}).items():
            with log.row({name: usd}):
                log.offer(
                    an_offer(instance_type=name, usd_per_hour=usd, observed_at=payload.fetched_at)
                )
        result.merge(log.done())
    return result


def parse_page(payloads: Sequence[Payload]) -> Parsed:
    result = Parsed()
    for payload in payloads:
        log = RowLog(payload)
        if problem := page_problem(payload.read()):
            log.fail(*problem)
        result.merge(log.done())
    return result


def do(
    database: Database,
    *items: Payload | Failure,
    provider: Provider | None = None,
    at: datetime | None = None,
    answers: Callable[[Traffic], Answers] | None = None,
) -> RunSummary:
    return collect(
        database,
        provider or a_provider(parse_json),
        answers or (lambda _: given(items)),
        FixedClock(at or hour(1)),
    )


def spans(database: Database) -> list[StoredSpan]:
    with reading(database) as session:
        return history(session, OfferFilter())


def last_run(database: Database, provider: str = "acme") -> StoredRun:
    with reading(database) as session:
        return recent_runs(session, provider)[0]


@pytest.fixture
def before(database: Database) -> list[StoredSpan]:
    """Prices that a good run stored before."""
    look(database, hour(0), {"a": "2", "b": "3"})
    return spans(database)


def test_a_good_run_writes_prices_payload_hashes_and_what_it_cost(database: Database) -> None:
    body = b'{"a": 2.5, "b": 0}'

    @contextmanager
    def answers(traffic: Traffic) -> Iterator[Iterator[Payload | Failure]]:
        yield iter([a_payload(body, at=hour(1))])
        traffic.requests, traffic.bytes_read = 3, len(body)

    summary = do(database, answers=answers)
    run = last_run(database)
    assert (summary.state, summary.offers, summary.rejected) == (RunState.OK, 1, 1)
    assert (run.state, run.offers, run.rejected, run.spans_opened) == ("ok", 1, 1, 1)
    assert (run.requests, run.bytes_read) == (3, len(body))
    assert run.observed_at == hour(1)
    with reading(database) as session:
        assert payload_known(session, hashlib.sha256(body).hexdigest(), origin="live")
        assert [r.reason for r in rejections(session, run.id)] == ["implausible_price"]


def test_a_source_that_does_not_answer_leaves_the_stored_prices(
    database: Database, before: list[StoredSpan]
) -> None:
    @contextmanager
    def answers(traffic: Traffic) -> Iterator[Iterator[Payload | Failure]]:
        def stream() -> Iterator[Payload | Failure]:
            yield a_payload(b'{"a": 9}', at=hour(1))
            raise SourceError("acme answered 429 too often", reason="http_429", status=429)

        try:
            yield stream()
        finally:
            traffic.requests = 6

    summary = do(database, answers=answers)
    assert (summary.state, summary.reason) == (RunState.FAILED, "http_429")
    run = last_run(database)
    assert (run.state, run.reason, run.detail) == (
        "failed", "http_429", "acme answered 429 too often",
    )  # fmt: skip
    assert run.requests == 6, "what was asked in vain is counted"
    assert spans(database) == before


def test_a_connection_that_cannot_be_opened_is_a_failed_run(
    database: Database, before: list[StoredSpan]
) -> None:
    def answers(_: Traffic) -> Answers:
        raise SourceError("no way out", reason="dns")

    summary = do(database, answers=answers)
    assert (summary.state, summary.reason) == (RunState.FAILED, "dns")
    assert spans(database) == before


def test_a_fetcher_that_crashes_costs_only_its_own_run(
    database: Database, before: list[StoredSpan]
) -> None:
    @contextmanager
    def answers(_: Traffic) -> Iterator[Iterator[Payload | Failure]]:
        def stream() -> Iterator[Payload | Failure]:
            yield a_payload(b'{"a": 9}', at=hour(1))
            raise KeyError("nextPageToken")

        yield stream()

    summary = do(database, answers=answers)
    assert (summary.state, summary.reason) == (RunState.FAILED, "fetcher_error")
    assert "KeyError: 'nextPageToken'" in last_run(database).detail
    assert spans(database) == before


def test_a_parser_that_crashes_costs_only_its_own_run(
    database: Database, before: list[StoredSpan]
) -> None:
    def crash(_: Sequence[Payload]) -> Parsed:
        raise ZeroDivisionError("division by zero")

    summary = do(database, a_payload(b'{"a": 9}'), provider=a_provider(crash))
    assert (summary.state, summary.reason) == (RunState.FAILED, "parser_error")
    run = last_run(database)
    assert "ZeroDivisionError: division by zero" in run.detail
    assert spans(database) == before
    with reading(database) as session:
        digest = hashlib.sha256(b'{"a": 9}').hexdigest()
        assert payload_known(session, digest, origin="live"), "the run can be traced"


def test_our_own_wrong_settings_are_not_blamed_on_the_source(database: Database) -> None:
    def answers(_: Traffic) -> Answers:
        raise ConfigError("SPOTFLOOR_GCP_PROJECT is malformed")

    with pytest.raises(ConfigError):
        do(database, answers=answers)
    with reading(database) as session:
        assert recent_runs(session) == []


@pytest.mark.parametrize(
    ("items", "reason"),
    [
        ((), "no_offers"),
        ((a_payload(b'{"a": 9, "b'),), "truncated"),
        ((a_payload(b""),), "empty_body"),
        ((a_payload(b"{}"),), "no_offers"),
        ((a_payload(b"[1, 2"),), "truncated"),
        ((a_payload(b'{"\xff": 2}'),), "wrong_charset"),
        ((a_payload(b"<!doctype html><title>Just a moment...</title>"),), "block_page"),
        ((a_payload(b"<html><h1>Prices</h1></html>"),), "html_instead_of_json"),
        ((Failure("http_403", "keys are wrong"),), "http_403"),
    ],
)
def test_answers_without_a_price_leave_the_stored_ones_and_say_why(
    database: Database,
    before: list[StoredSpan],
    items: tuple[Payload | Failure, ...],
    reason: str,
) -> None:
    summary = do(database, *items)
    assert (summary.state, summary.reason) == (RunState.FAILED, reason)
    assert spans(database) == before
    assert (last_run(database).state, last_run(database).reason) == ("failed", reason)
    assert last_run(database).detail


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("akamai_403.html", "block_page"),
        ("cloudflare_challenge_status200.html", "block_page"),
        ("html_instead_of_json.html", "html_instead_of_json"),
        ("maintenance_200.html", "maintenance"),
        ("truncated.json", "truncated"),
    ],
)
def test_recorded_faults_are_failed_runs_with_their_name(
    sqlite: Database, file: str, reason: str
) -> None:
    look(sqlite, hour(0), {"a": "2"})
    before = spans(sqlite)
    body = shared("payloads", "common", file).read_bytes()
    assert do(sqlite, a_payload(body)).reason == reason
    assert spans(sqlite) == before
    if reason in {"block_page", "maintenance"}:
        told = do(sqlite, a_payload(body), provider=a_provider(parse_page))
        assert told.reason == reason


def test_a_part_that_could_not_be_had_ends_nothing(
    database: Database, before: list[StoredSpan]
) -> None:
    summary = do(
        database, a_payload(b'{"a": 2.5}', at=hour(1)), Failure("http_500", "no eu", "eu.json")
    )
    assert (summary.state, summary.failures) == (RunState.PARTIAL, 1)
    with reading(database) as session:
        prices = {k.instance_type: v for k, v in open_prices(session, "acme", "live").items()}
    assert prices == {"a": Decimal("2.5"), "b": Decimal(3)}


def test_a_provider_without_its_key_is_skipped_in_the_run_log(
    database: Database, before: list[StoredSpan]
) -> None:
    skip(database, a_provider(parse_json), "needs SPOTFLOOR_ACME_KEY", FixedClock(hour(1)))
    run = last_run(database)
    assert (run.state, run.reason, run.detail) == ("skipped", "no_key", "needs SPOTFLOOR_ACME_KEY")
    assert spans(database) == before


def test_one_failing_provider_does_not_stop_the_next(
    database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def crash(_: Sequence[Payload]) -> Parsed:
        raise RuntimeError("boom")

    def parse_good(payloads: Sequence[Payload]) -> Parsed:
        offer = an_offer(provider="good", observed_at=payloads[0].fetched_at)
        tariff = a_tariff(provider="good", observed_at=payloads[0].fetched_at)
        return Parsed(offers=[offer], egress=[tariff])

    table = (a_provider(crash, name="bad"), a_provider(parse_good, name="good"))
    monkeypatch.setattr(runs, "PROVIDERS", table)
    for provider in table:
        (tmp_path / provider.name).mkdir()
        (tmp_path / provider.name / "prices.json").write_bytes(b"{}")
    told: list[str] = []
    summaries = list(
        collect_recorded(database, tmp_path, FixedClock(hour(1)), (), hour(0), told.append)
    )
    assert [(s.provider, s.state.value, s.reason) for s in summaries] == [
        ("bad", "failed", "parser_error"),
        ("good", "ok", ""),
    ]
    assert told == ["Bad: parsing", "Good: parsing"]
    assert [(s.provider, s.valid_from) for s in spans(database)] == [("good", hour(0))]


def test_a_database_that_is_not_there_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("db.engine.PAUSES", (0.01, 0.01))
    engine = make_engine("postgresql://nobody@127.0.0.1:1/none")
    with pytest.raises(DatabaseError, match="cannot be reached"):
        do(engine, a_payload(b'{"a": 2}'))


# --- killed


@pytest.mark.parametrize("where", ["parse", "write"])
def test_a_killed_run_leaves_nothing_and_the_next_one_works(
    database: Database, database_url: str, where: str
) -> None:
    look(database, hour(0), {f"m{number}": "2" for number in range(50)})
    before = spans(database)
    victim = subprocess.Popen(
        [sys.executable, "-m", "tests.pricing.killed_run", database_url, where],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    try:
        assert victim.stdout is not None
        assert victim.stdout.readline() == "here\n"
        assert spans(database) == before, "nothing shows before the run is whole"
    finally:
        victim.send_signal(signal.SIGKILL)
        victim.communicate()
    assert victim.returncode == -signal.SIGKILL
    assert spans(database) == before
    with reading(database) as session:
        assert len(recent_runs(session)) == 1

    body = ("{" + ", ".join(f'"m{number}": 3' for number in range(50)) + "}").encode()
    summary = do(database, a_payload(body, at=hour(2)), at=hour(2))
    assert (summary.state, summary.result.opened) == (RunState.OK, 50)
    assert {span.usd_per_hour for span in spans(database) if span.valid_to is None} == {3}
