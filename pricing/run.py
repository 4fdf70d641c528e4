"""Runs over many providers, one after another: from the network or from a recorded folder."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from core.clock import Clock
from core.errors import ConfigError
from core.market import Failure
from core.settings import Settings
from db.engine import Database
from pricing.collect import Answers, RunSummary, Traffic, collect, given, skip
from pricing.http import HttpSession
from pricing.recorded import primary_payloads, provider_folders
from pricing.registry import PROVIDERS, by_name
from pricing.source import Payload, Provider

Tell = Callable[[str], None]


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
        yield collect_one(database, provider, settings, clock)


def chosen(settings: Settings, names: Sequence[str] = ()) -> list[Provider]:
    """Return the providers to collect, in the registry's order."""
    wanted = list(names) or list(settings.providers)
    return [by_name(name) for name in wanted] if wanted else list(PROVIDERS)


def collect_one(
    database: Database, provider: Provider, settings: Settings, clock: Clock
) -> RunSummary:
    """Collect one provider from the network, or say in the run log why it was skipped."""
    if why := provider.missing_key(settings):
        return skip(database, provider, why, clock)
    return collect(
        database, provider, lambda traffic: _network(provider, settings, clock, traffic), clock
    )


@contextmanager
def _network(
    provider: Provider, settings: Settings, clock: Clock, traffic: Traffic
) -> Iterator[Iterator[Payload | Failure]]:
    with HttpSession(
        provider.name,
        provider.hosts,
        settings,
        clock=clock,
        sleep=time.sleep,
        monotonic=time.monotonic,
        jitter=random.random,
    ) as session:
        try:
            yield provider.fetch(session)
        finally:
            traffic.requests, traffic.bytes_read = session.requests, session.bytes_read


def collect_recorded(
    database: Database,
    folder: Path,
    clock: Clock,
    names: Sequence[str],
    observed_at: datetime | None,
    tell: Tell,
) -> Iterator[RunSummary]:
    """Parse a recorded folder exactly as a network run would.

    Raises:
        ConfigError: the folder is not what it should be.
    """
    providers = [by_name(name) for name in names] if names else list(PROVIDERS)
    folders = provider_folders(folder, providers)
    for provider in providers:
        if provider.name not in folders:
            continue
        tell(f"{provider.title}: parsing")
        payloads = primary_payloads(provider, folders[provider.name], observed_at or clock.now())

        def answers(_traffic: Traffic, found: list[Payload] = payloads) -> Answers:
            return given(found)

        yield collect(database, provider, answers, clock)
