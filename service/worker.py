"""The worker: collects each provider in its own time and keeps house.

Facts behind the settings of the scheduler (APScheduler 3): a job late by more than its grace is
dropped in silence, the grace is one second unless said otherwise, the time zone is the machine's
unless said otherwise, and exceptions reach nobody. So: UTC, explicit grace, coalescing and
instance limit, a wrapper that records what happened, and a claim on (job, slot) in the database,
so that any number of workers may run while each slot is worked once.
"""

from __future__ import annotations

import os
import random
import signal
import socket
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import structlog
from apscheduler.events import EVENT_JOB_MAX_INSTANCES, EVENT_JOB_MISSED, JobEvent
from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from core.clock import floor_to_slot, iso
from core.errors import AppError
from db.claims import (
    abandoned,
    claim,
    finish,
    forget_claims,
    forget_workers,
    give_up,
    sign_of_life,
)
from db.deliveries import forget_deliveries
from db.engine import reading, tried_again, writing
from db.partitions import keep_months
from pricing.archive import archive_of
from pricing.retention import prune
from pricing.run import chosen, collect_one

if TYPE_CHECKING:
    from service.context import Context

log = structlog.get_logger(__name__)

HEARTBEAT = timedelta(seconds=30)
KEEP_CLAIMS = timedelta(days=30)
KEEP_DELIVERIES = timedelta(days=90)
"""How long the history of deliveries is kept, and can be replayed."""
SHARED_AT_ONCE = 4
"""Passes of a shared job that may overlap in one worker."""
STOP_WITHIN = 25.0
"""Seconds that a job in hand gets to end after SIGTERM; container runtimes kill after 30."""


@dataclass(frozen=True, slots=True)
class Job:
    """Something to do once per period.

    Attributes:
        name: e.g. ``scrape:aws``.
        every: the period; its floor in UTC names the slot.
        lease: after this long without an end, another worker may take the slot over.
        work: does it and returns (state, detail).
        shared: any number of workers may do it at the same time (it claims its own pieces), so
            slots are not claimed.
    """

    name: str
    every: timedelta
    lease: timedelta
    work: Callable[[], tuple[str, str]]
    shared: bool = False


def worker_name() -> str:
    """Name this process so that no two workers share it."""
    return f"{socket.gethostname()}:{os.getpid()}:{uuid.uuid4().hex[:6]}"


def jobs(context: Context) -> list[Job]:
    """Return the timetable under the present settings."""
    budget = timedelta(seconds=context.settings.http_budget_seconds)
    table = [Job("house", timedelta(days=1), timedelta(minutes=10), lambda: _house(context))]
    if context.settings.offline:
        return table
    from service.alert_jobs import EVALUATE_EVERY, alert_job
    from service.digest_jobs import DIGEST_EVERY, digest_job
    from service.notify_jobs import DELIVER_EVERY, deliver
    from service.plan_jobs import PLANS_EVERY, plans_job

    work = deliver(context, worker_name())
    table.append(Job("deliver", DELIVER_EVERY, timedelta(minutes=2), work, shared=True))
    evaluate = alert_job(context)
    table.append(Job("alerts", EVALUATE_EVERY, timedelta(minutes=2), evaluate, shared=True))
    table.append(Job("plans", PLANS_EVERY, timedelta(minutes=30), plans_job(context)))
    table.append(Job("digest", DIGEST_EVERY, timedelta(minutes=10), digest_job(context)))
    for provider in chosen(context.settings):

        def collect(source: object = provider) -> tuple[str, str]:
            from pricing.source import Provider

            assert isinstance(source, Provider)
            summary = collect_one(context.database, source, context.settings, context.clock)
            return summary.state.value, summary.detail or f"{summary.offers} offers"

        table.append(Job(f"scrape:{provider.name}", provider.every, budget * 2, collect))
    return table


def _house(context: Context) -> tuple[str, str]:
    now = context.clock.now()
    with writing(context.database) as session:
        gone = forget_claims(session, now - KEEP_CLAIMS)
        forget_workers(session, now - KEEP_CLAIMS)
        forget_deliveries(session, now - KEEP_DELIVERIES)
    runs = archive_of(context.settings).prune(now)
    told = [f"{gone} old claims deleted"] + [f"{runs} archived runs"] * bool(runs)
    made = keep_months(context.database, now)
    told += [f"{len(made)} monthly partitions made"] * bool(made)
    if days := context.settings.keep_days:
        pruned = prune(context.database, now, keep_days=days)
        told.append(f"{pruned.spans_deleted} old spans in {pruned.days_written} daily rows")
    return "ok", ", ".join(told)


def perform(context: Context, job: Job, worker: str) -> str:
    """Claim the job's present slot and do it, if nobody did.

    Returns:
        ``taken`` when another worker has the slot, else the state of the work. Trouble is
        recorded and logged, never raised: one job's failure must not touch another.
    """
    now = context.clock.now()
    slot = iso(floor_to_slot(now, job.every))
    if job.shared:
        return _work(job, slot)[0]

    def begin() -> bool:
        return claim(context.database, job.name, slot, worker, now=now, lease=job.lease)

    try:
        if not tried_again(begin):
            return "taken"
    except AppError as error:
        log.error("job.unclaimed", job=job.name, slot=slot, error=str(error))
        return "failed"
    state, detail = _work(job, slot)

    def end() -> None:
        ended = context.clock.now()
        finish(context.database, job.name, slot, worker, now=ended, state=state, detail=detail)

    try:
        tried_again(end)
    except AppError as error:
        log.error("job.unrecorded", job=job.name, slot=slot, error=str(error))
    return state


def _work(job: Job, slot: str) -> tuple[str, str]:
    try:
        return job.work()
    except Exception as error:
        log.exception("job.failed", job=job.name, slot=slot)
        return "failed", f"{type(error).__name__}: {error}"


def run_once(context: Context) -> None:
    """Do every job whose present slot is free, one after another."""
    name = worker_name()
    for job in jobs(context):
        log.info("job.done", job=job.name, state=perform(context, job, name))


def run_worker(context: Context) -> None:
    """Run until SIGTERM or SIGINT; a job in hand may end, then the process does."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    name = worker_name()
    sign_of_life(context.database, name, now=context.clock.now())
    table = jobs(context)
    scheduler = make_scheduler(context, table, name)
    scheduler.start()
    log.info("worker.started", worker=name, jobs=len(scheduler.get_jobs()))
    while not stop.wait(HEARTBEAT.total_seconds()):
        beat(context, scheduler, table, name)
    log.info("worker.stopping", worker=name)
    _shut_down(scheduler)
    try:
        sign_of_life(context.database, name, now=context.clock.now(), stopped=True)
    except AppError as error:
        log.error("worker.heartbeat_failed", error=str(error))
    log.info("worker.stopped", worker=name)


def beat(context: Context, scheduler: BackgroundScheduler, table: list[Job], worker: str) -> None:
    """Give a sign of life, and start at once what other workers left undone."""
    now = context.clock.now()
    try:
        sign_of_life(context.database, worker, now=now)
        for job in orphans(context, table, worker):
            log.warning("job.taken_over", job=job.name)
            scheduler.modify_job(job.name, next_run_time=now)
    except AppError as error:
        log.error("worker.heartbeat_failed", error=str(error))


def orphans(context: Context, table: list[Job], worker: str) -> list[Job]:
    """Return the jobs whose present slot was left by another worker that was killed or hung.

    Claims on slots that are over are ended: nobody will do that work any more.

    Raises:
        DatabaseError: the claims cannot be read.
    """
    now = context.clock.now()
    with reading(context.database) as session:
        left = abandoned(session, now, worker)
    if not left:
        return []
    present = {(job.name, iso(floor_to_slot(now, job.every))): job for job in table}
    with writing(context.database) as session:
        for job, slot in sorted(left - present.keys()):
            give_up(session, job, slot, now)
    return [job for key, job in present.items() if key in left]


def make_scheduler(context: Context, table: list[Job], worker: str) -> BackgroundScheduler:
    """Put the timetable on a scheduler that is not yet started."""
    scheduler = BackgroundScheduler(
        timezone="UTC",
        job_defaults={"coalesce": True, "max_instances": 1},
        # Long runs of many sources must not keep small frequent jobs from running.
        executors={
            "default": ThreadPoolExecutor(10),
            "shared": ThreadPoolExecutor(SHARED_AT_ONCE),
        },
    )
    now = context.clock.now()
    for number, job in enumerate(table):
        scheduler.add_job(
            perform,
            "interval",
            args=[context, job, worker],
            id=job.name,
            executor="shared" if job.shared else "default",
            # A pass that waits for a slow receiver does not hold the next one up.
            max_instances=SHARED_AT_ONCE if job.shared else 1,
            seconds=job.every.total_seconds(),
            jitter=_jitter(job.every),
            # However late (a machine that slept, a long run before): once, for the present slot.
            misfire_grace_time=None,
            next_run_time=_first_run(now, number),
        )
    scheduler.add_listener(_report, EVENT_JOB_MISSED | EVENT_JOB_MAX_INSTANCES)
    return scheduler


def _first_run(now: datetime, number: int) -> datetime:
    """Start at once, but not all in the same second."""
    return now + timedelta(seconds=1 + 2 * number + random.random())  # noqa: S311 - not a secret


def _jitter(every: timedelta) -> int:
    return min(300, max(1, int(every.total_seconds() * 0.05)))


def _report(event: JobEvent) -> None:
    missed = event.code == EVENT_JOB_MISSED
    log.warning("job.missed" if missed else "job.still_running", job=event.job_id)


def _shut_down(scheduler: BackgroundScheduler) -> None:
    """Let jobs in hand end, within a limit; what is cut off was not half-written."""
    done = threading.Thread(target=scheduler.shutdown, kwargs={"wait": True}, daemon=True)
    done.start()
    done.join(STOP_WITHIN)
    if done.is_alive():
        log.warning("worker.cut_off", seconds=STOP_WITHIN)
        os._exit(0)
