"""The database's server goes away in the middle of work, for real, and comes back."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from sqlalchemy import select

import pricing.outcome
from core.clock import FixedClock
from core.errors import DatabaseAway
from core.market import Parsed
from core.settings import Settings
from db.claims import workers
from db.engine import Database, make_engine, reading
from db.migrate import upgrade
from db.models import ClaimRow
from db.offers import current_offers
from db.runs import recent_runs
from pricing.collect import RunSummary, collect, given
from service.context import Context
from service.worker import Job, beat, make_scheduler, perform
from tests.builders import a_payload, a_provider, an_offer, hour
from tests.postgres import OwnServer, PostgresServer

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def own() -> Iterator[OwnServer]:
    with TemporaryDirectory(prefix="pg-") as folder:
        server = OwnServer(Path(folder))
        yield server
        server.close()


@pytest.fixture
def database(own: OwnServer) -> Iterator[Database]:
    with PostgresServer(own.url).fresh_database(f"t_{uuid.uuid4().hex[:12]}") as url:
        engine = make_engine(url)
        upgrade(engine)
        yield engine
        engine.dispose()


def a_run(database: Database, at: float, price: str, name: str) -> RunSummary:
    offers = [
        an_offer(provider=name, instance_type=f"m{n}", usd_per_hour=price, observed_at=hour(at))
        for n in range(30)
    ]
    provider = a_provider(lambda _: Parsed(offers=offers), name=name)
    clock = FixedClock(hour(at))
    return collect(database, provider, lambda _: given([a_payload(at=hour(at))]), clock)


@contextmanager
def first_time(
    monkeypatch: pytest.MonkeyPatch, name: str, act: Callable[[], None]
) -> Iterator[None]:
    """Let something happen when a function is first called, and never again."""
    module, _, function = name.rpartition(".")
    real: Callable[..., Any] = getattr(__import__(module, fromlist=["_"]), function)
    left = [act]

    def call(*given: Any, **named: Any) -> Any:
        if left:
            left.pop()()
        return real(*given, **named)

    with monkeypatch.context() as patch:
        patch.setattr(name, call)
        yield
    assert not left, "it was called"


def states(database: Database, name: str) -> list[str]:
    with reading(database) as session:
        return [run.state for run in recent_runs(session, name)]


def prices(database: Database, name: str) -> set[int]:
    with reading(database) as session:
        offers = [o for o in current_offers(session, hour(3)) if o.provider == name]
    assert len(offers) == 30
    return {int(offer.usd_per_hour) for offer in offers}


def test_a_run_whose_server_crashes_before_its_commit_is_written_whole_and_once(
    own: OwnServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_run(database, 0, "2", "acme")

    def crash() -> None:
        own.crash()
        own.start()
        # Nothing is there of the run that was cut off.
        assert (states(database, "acme"), prices(database, "acme")) == (["ok"], {2})

    # The last step of the transaction: run row, offers and spans are written by then.
    with first_time(monkeypatch, "db.ingest.write_observations", crash):
        summary = a_run(database, 1, "3", "acme")
    assert (summary.state.value, summary.result.opened) == ("ok", 30)
    assert (states(database, "acme"), prices(database, "acme")) == (["ok", "ok"], {3})


def test_a_run_whose_connection_is_lost_after_its_commit_is_not_written_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.engine.PAUSES", (0.01,))
    real = pricing.outcome._write

    def cut_off(*given: Any) -> Any:
        real(*given)
        raise DatabaseAway("the answer to COMMIT never came")

    monkeypatch.setattr("pricing.outcome._write", cut_off)
    summary = a_run(database, 1, "2", "bolt")
    assert (summary.state.value, summary.result.opened) == ("ok", 30)
    assert (states(database, "bolt"), prices(database, "bolt")) == (["ok"], {2})


def test_a_run_is_given_up_when_the_server_stays_away_and_leaves_nothing(
    own: OwnServer, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.engine.PAUSES", (0.01, 0.01))
    with (
        first_time(monkeypatch, "db.ingest.write_observations", own.crash),
        pytest.raises(DatabaseAway, match="cannot be reached"),
    ):
        a_run(database, 0, "2", "cold")
    own.start()
    assert states(database, "cold") == []
    assert a_run(database, 1, "2", "cold").result.opened == 30


def test_a_worker_lives_through_a_restart_and_its_job_is_recorded_once(
    own: OwnServer, database: Database
) -> None:
    context = Context(FixedClock(hour(0.5)))
    context.database = database
    context.settings = Settings.model_validate({"offline": True})
    done: list[str] = []

    def work() -> tuple[str, str]:
        done.append("once")
        own.crash()
        threading.Timer(0.3, own.start).start()  # back while the end is tried again
        return "ok", "30 offers"

    job = Job("scrape:a", timedelta(hours=1), timedelta(hours=2), work)
    assert perform(context, job, "w") == "ok"
    assert perform(context, job, "other") == "taken"
    own.crash()
    scheduler = make_scheduler(context, [job], "w")
    beat(context, scheduler, [job], "w")  # says so in the log, and no more
    own.start()
    beat(context, scheduler, [job], "w")
    with reading(database) as session:
        (row,) = session.scalars(select(ClaimRow))
        assert (row.state, row.detail, row.worker) == ("ok", "30 offers", "w")
        assert [name for name, *_ in workers(session)] == ["w"]
    assert done == ["once"]
