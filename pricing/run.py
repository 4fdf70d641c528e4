"""Runs over many providers, one after another: from the network or from a recorded folder."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from pathlib import Path

from core.clock import Clock
from core.errors import ConfigError, DataError, InputError
from core.market import Failure
from core.settings import Settings
from db.engine import Database, reading
from db.findings import accepted_as, newer_good_run
from db.health import health_of
from db.records import RunState
from db.runs import payloads_of, stored_run
from db.validators import Validator, known_validators
from pricing.archive import Archive, archive_of
from pricing.archived_run import is_archived, opened
from pricing.bodies import Spool
from pricing.collect import Answers, RunSummary, Traffic, collect, given, skip
from pricing.http import HttpSession
from pricing.patience import waits
from pricing.recorded import primary_payloads, provider_folders
from pricing.registry import PROVIDERS, by_name
from pricing.source import Payload, Provider
from pricing.versions import Versions

Tell = Callable[[str], None]

ACCEPTABLE = (RunState.SUSPECT.value, RunState.PARTIAL.value)
"""States of runs in which something was held back that a person may believe."""


def collect_network(
    database: Database, settings: Settings, clock: Clock, names: Sequence[str], tell: Tell
) -> Iterator[RunSummary]:
    """Collect the named providers (none named: those of the settings, else all).

    Raises:
        ConfigError: the settings forbid the network.
    """
    if settings.offline:
        raise ConfigError(
            "SPOTFLOOR_OFFLINE is set: no network; use --from DIR or unset it to collect"
        )
    for provider in chosen(settings, names):
        tell(f"{provider.title}: reading")
        yield collect_one(database, provider, settings, clock, by_hand=True)


def chosen(settings: Settings, names: Sequence[str] = ()) -> list[Provider]:
    """Return the providers to collect, in the registry's order."""
    wanted = list(names) or list(settings.providers)
    return [by_name(name) for name in wanted] if wanted else list(PROVIDERS)


def collect_one(
    database: Database,
    provider: Provider,
    settings: Settings,
    clock: Clock,
    *,
    by_hand: bool = False,
) -> RunSummary:
    """Collect one provider from the network, or say in the run log why it was skipped.

    Args:
        by_hand: a person asked for it: a source that failed often is tried all the same, one that
            asked to be left alone is not.
    """
    if why := provider.missing_key(settings):
        return skip(database, provider, why, clock)
    with reading(database) as session:
        health = health_of(session, provider.name)
        known = known_validators(session, provider.name)
    if why := waits(health, clock.now(), by_hand=by_hand):
        return skip(database, provider, why, clock, reason="left_alone")
    archive = archive_of(settings)

    def answers(traffic: Traffic) -> Answers:
        return _network(provider, settings, clock, traffic, archive, known)

    return collect(database, provider, answers, clock, archive=archive)


@contextmanager
def _network(
    provider: Provider,
    settings: Settings,
    clock: Clock,
    traffic: Traffic,
    archive: Archive,
    known: Mapping[str, Validator],
) -> Iterator[Iterator[Payload | Failure]]:
    spool = Spool(None)
    versions = Versions(known, lambda sha256: archive.body(sha256, spool))
    traffic.live = True
    with HttpSession(
        provider.name,
        provider.hosts,
        settings,
        clock=clock,
        sleep=time.sleep,
        monotonic=time.monotonic,
        jitter=random.random,
        versions=versions,
    ) as session:
        try:
            yield provider.fetch(session)
        finally:
            traffic.requests, traffic.bytes_read = session.requests, session.bytes_read
            traffic.unchanged, traffic.named = versions.unchanged, versions.named
            traffic.left_alone_until = session.left_alone_until
            spool.close()


def collect_recorded(
    database: Database,
    folder: Path,
    clock: Clock,
    names: Sequence[str],
    observed_at: datetime | None,
    tell: Tell,
    archive: Archive | None = None,
) -> Iterator[RunSummary]:
    """Parse a recorded folder, or one run of the archive, exactly as a network run would.

    Args:
        observed_at: when it was recorded; default now, for a run of the archive its own time.
        archive: keeps the payloads.

    Raises:
        ConfigError: the folder is not what it should be.
        DataError: the run of the archive is damaged.
    """
    if is_archived(folder):
        yield _collect_archived(database, folder, clock, names, observed_at, tell, archive)
        return
    providers = [by_name(name) for name in names] if names else list(PROVIDERS)
    folders = provider_folders(folder, providers)
    for provider in providers:
        if provider.name not in folders:
            continue
        tell(f"{provider.title}: parsing")
        payloads = primary_payloads(provider, folders[provider.name], observed_at or clock.now())

        def answers(_traffic: Traffic, found: list[Payload] = payloads) -> Answers:
            return given(found)

        yield collect(database, provider, answers, clock, archive=archive)


def _collect_archived(
    database: Database,
    folder: Path,
    clock: Clock,
    names: Sequence[str],
    observed_at: datetime | None,
    tell: Tell,
    archive: Archive | None,
) -> RunSummary:
    with opened(folder) as (name, payloads, failures):
        if names and list(names) != [name]:
            raise ConfigError(f"--from {folder}: holds a run of {name}, not of {', '.join(names)}")
        provider = _known(name, folder)
        tell(f"{provider.title}: parsing")
        if observed_at is not None:
            payloads = [replace(payload, fetched_at=observed_at) for payload in payloads]
        items: list[Payload | Failure] = [*payloads, *failures]
        return collect(database, provider, lambda _: given(items), clock, archive=archive)


def accept_run(database: Database, archive: Archive, clock: Clock, run_id: int) -> RunSummary:
    """Apply the values of a doubted run, read again from the archive, at that run's time.

    Raises:
        InputError: there is no such run, nothing in it is in doubt, or it came too late.
        DataError: its payloads are not in the archive of this machine.
    """
    with reading(database) as session:
        run = stored_run(session, run_id)
        if run is None:
            raise InputError(f"run {run_id}: no such run; 'spotfloor scrape status' names them")
        if run.state not in ACCEPTABLE or run.origin != "live":
            raise InputError(
                f"run {run_id} of {run.provider} is {run.state}: only a suspect run, or a partial"
                " one with prices held back, can be accepted"
            )
        if (applied := accepted_as(session, run_id)) is not None:
            raise InputError(f"run {run_id} was accepted before, as run {applied}")
        if (newer := newer_good_run(session, run)) is not None:
            raise InputError(
                f"run {run_id} of {run.provider} is older than run {newer}, which wrote prices;"
                " collect again instead"
            )
        expected = payloads_of(session, run_id)
    folder = archive.folder / str(run_id)
    with opened(folder, expected) as (name, payloads, failures):
        provider = _known(name, folder)
        items: list[Payload | Failure] = [*payloads, *failures]
        return collect(
            database, provider, lambda _: given(items), clock, archive=archive, accepts=run_id
        )


def _known(name: str, folder: Path) -> Provider:
    try:
        return by_name(name)
    except KeyError:
        raise DataError(
            f"{folder}: a run of {name}, which this program does not collect; update spotfloor"
        ) from None
