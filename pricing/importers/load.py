"""Storing catalogues of other tools: the same way in as live prices, another origin.

An import is additive: it never ends an offer and never touches live prices. All files are read
before anything is written, and everything is written in one transaction.
"""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from core.clock import Clock
from core.errors import InputError
from core.market import Parsed
from db.engine import Database, writing
from db.ingest import write_run
from db.records import PayloadFacts, RunReport, RunState, SourceFacts
from pricing.collect import source_facts
from pricing.importers import gpuhunt, skypilot
from pricing.importers.machines import provider_of
from pricing.merge import merged
from pricing.registry import PROVIDERS
from pricing.source import Payload

FORMATS: dict[str, Callable[[Payload, str], Parsed]] = {
    "skypilot": skypilot.parse,
    "gpuhunt": gpuhunt.parse,
}
LARGEST_BYTES = 1 << 30
"""Decompressed; published catalogues are below 100 MB."""


@dataclass(frozen=True, slots=True)
class Imported:
    """What one provider's catalogue gave."""

    provider: str
    payload: Payload
    parsed: Parsed
    conflicts: frozenset[object]


@dataclass(frozen=True, slots=True)
class Stored:
    """What was written of it."""

    provider: str
    run_id: int
    offers: int
    rejected: int
    opened: int
    kept: int


def read_catalogues(
    files: Sequence[Path], format_: str, provider: str | None, observed_at: datetime | None
) -> list[Imported]:
    """Read and parse catalogue files; nothing is stored.

    Args:
        provider: whose prices a CSV holds; None = what its name (or folder) says.
        observed_at: when the catalogue was made; None = the file's own time.

    Raises:
        InputError: a file cannot be read, is no catalogue, or does not say whose it is.
    """
    found = []
    for path in files:
        for payload, named in _payloads(path, provider, observed_at):
            parsed = FORMATS[format_](payload, named)
            if parsed.failures:
                failure = parsed.failures[0]
                raise InputError(
                    f"{path} ({payload.name}): no {format_} catalogue: {failure.detail}"
                )
            clean, conflicts = merged(parsed)
            found.append(Imported(named, payload, clean, frozenset(conflicts)))
    return found


def store(database: Database, found: Sequence[Imported], clock: Clock) -> list[Stored]:
    """Write what was read in one transaction.

    Raises:
        DatabaseError: nothing was written then.
    """
    now = clock.now()
    known = {provider.name: source_facts(provider) for provider in PROVIDERS}
    written = []
    with writing(database) as session:
        for item in found:
            result = write_run(
                session,
                RunReport(
                    source=known.get(item.provider)
                    or SourceFacts(item.provider, item.provider, "list", "", 0),
                    origin="import",
                    started_at=now,
                    finished_at=clock.now(),
                    observed_at=item.payload.fetched_at,
                    state=RunState.OK,
                    reason="imported",
                    detail=item.payload.url,
                    parsed=item.parsed,
                    closing=False,
                    payloads=[_facts(item.payload)],
                ),
            )
            written.append(
                Stored(
                    item.provider,
                    result.run_id,
                    len(item.parsed.offers),
                    item.parsed.rejected_rows,
                    result.opened,
                    result.kept,
                )
            )
    return written


def _payloads(
    path: Path, provider: str | None, observed_at: datetime | None
) -> Iterator[tuple[Payload, str]]:
    try:
        written = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        zipped = zipfile.is_zipfile(path)
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror}; give a catalogue file") from None
    made = observed_at or written
    if not zipped:
        yield Payload(path.name, path, f"import:{path.name}", made), _owner(path, provider)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = [item for item in archive.infolist() if item.filename.endswith(".csv")]
            if not members:
                raise InputError(f"{path}: holds no CSV; give the ZIP of a catalogue")
            if sum(item.file_size for item in members) > LARGEST_BYTES:
                raise InputError(f"{path}: unpacks to more than 1 GiB; this is no catalogue")
            for item in members:
                name = Path(item.filename).name
                with archive.open(item) as member:
                    body = member.read(LARGEST_BYTES)
                payload = Payload(name, body, f"import:{path.name}/{name}", made)
                yield payload, _owner(Path(item.filename), provider)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"{path}: no usable ZIP: {error}") from None


def _owner(path: Path, provider: str | None) -> str:
    """Whose prices a file holds: as given, else its folder (``aws/vms.csv``), else its name."""
    if provider is not None:
        return provider_of(provider)
    name = path.parent.name if path.stem == "vms" else path.stem
    try:
        return provider_of(name)
    except ValueError:
        raise InputError(
            f"{path}: whose prices are these? Say --provider NAME, or name the file NAME.csv"
        ) from None


def _facts(payload: Payload) -> PayloadFacts:
    digest = hashlib.sha256()
    size = 0
    with payload.open() as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
            size += len(block)
    return PayloadFacts(payload.name, payload.url, digest.hexdigest(), size, payload.fetched_at)
