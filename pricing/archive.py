"""The archive of raw payloads: what each run read, kept for some days, so that any number can be
traced and any run read again without the network.

``ARCHIVE/<run>/<provider>/<payload>.gz`` with ``ARCHIVE/<run>/manifest.json`` beside it. A body is
stored once, under its hash in ``ARCHIVE/objects``; runs hold links to it, so a list that did not
change costs no space. Everything is written under another name first and then renamed: a process
that is killed leaves nothing half-written. Headers are never kept, addresses without credentials,
and a body that repeats one of our own keys is not kept at all.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO

import structlog
from pydantic import SecretStr

from core.clock import iso, parse_instant
from core.market import Failure
from core.settings import Settings
from db.records import PayloadFacts
from pricing.bodies import SPOOL_ABOVE_BYTES, Spool
from pricing.source import Payload

log = structlog.get_logger(__name__)

MANIFEST = "manifest.json"
SCHEMA = "spotfloor.archive/1"
OBJECTS = "objects"

SHORTEST_KEPT = timedelta(days=2)
"""Bodies that no run holds stay at least so long: the next conditional request may use them."""

SHORTEST_SECRET = 6
"""Shorter settings are no keys, and would be found everywhere."""

_SAFE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.,=@+-]{0,180}")
_BLOCK = 1 << 20


@dataclass(frozen=True, slots=True)
class Archive:
    """A folder of payloads.

    Attributes:
        folder: made when first needed.
        days: how long runs are kept; 0 = runs are not kept.
        secrets: texts that no stored body may hold.
    """

    folder: Path
    days: int
    secrets: tuple[bytes, ...] = ()

    def keep(self, payload: Payload, now: datetime) -> PayloadFacts:
        """Store a body, unless it is there already or repeats a key; return its facts.

        Raises:
            OSError: the folder cannot be written.
        """
        facts, leaks = _examined(payload, self.secrets)
        if leaks:
            log.warning("archive.left_out", payload=payload.name, why="it repeats one of our keys")
            return facts
        target = self._object(facts.sha256)
        if not target.exists():
            target.parent.mkdir(parents=True, exist_ok=True)
            with (
                payload.open() as body,
                _fresh_file(target) as out,
                gzip.GzipFile("", "wb", 6, out, mtime=0) as packed,
            ):
                shutil.copyfileobj(body, packed, _BLOCK)
        os.utime(target, (now.timestamp(), now.timestamp()))
        return facts

    def seal(
        self,
        run_id: int,
        provider: str,
        payloads: Sequence[PayloadFacts],
        failures: Sequence[Failure],
        now: datetime,
    ) -> Path | None:
        """Give a run its folder, of bodies that ``keep`` stored; returns it, None if not kept.

        Raises:
            OSError: the folder cannot be written.
        """
        if self.days == 0 or not payloads:
            return None
        self.folder.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".run-", dir=self.folder))
        try:
            (fresh / provider).mkdir()
            rows = []
            for number, item in enumerate(payloads):
                place = self._object(item.sha256)
                if not place.exists():
                    continue  # left out, and said so then
                safe = _SAFE_NAME.fullmatch(item.name)
                file = f"{provider}/{item.name if safe else f'payload-{number}'}.gz"
                _link(place, fresh / file)
                rows.append(_row(item, file))
            manifest = {
                "schema": SCHEMA,
                "run_id": run_id,
                "provider": provider,
                "written_at": iso(now),
                "payloads": rows,
                "failures": [[f.reason, f.detail, f.source_file] for f in failures],
            }
            (fresh / MANIFEST).write_text(json.dumps(manifest, indent=1), "utf-8")
            target = self.folder / str(run_id)
            if target.exists():
                # Run numbers belong to a database; this folder is of another one.
                log.warning("archive.replaced", run=run_id)
                target.rename(fresh / "before")
            fresh.rename(target)
            shutil.rmtree(target / "before", ignore_errors=True)
        except BaseException:
            shutil.rmtree(fresh, ignore_errors=True)
            raise
        return target

    def prune(self, now: datetime) -> int:
        """Remove runs older than ``days``, and bodies that no run holds; returns how many runs.

        Raises:
            OSError: the folder cannot be read or written.
        """
        if not self.folder.is_dir():
            return 0
        gone = 0
        for place in sorted(self.folder.iterdir()):
            unfinished = place.name.startswith(".run-")
            if not place.is_dir() or not (unfinished or place.name.isdecimal()):
                continue
            limit = SHORTEST_KEPT if unfinished else timedelta(days=self.days)
            if now - _written_at(place) > limit:
                shutil.rmtree(place)
                gone += not unfinished
        for body in (self.folder / OBJECTS).glob("*/*.gz"):
            facts = body.stat()
            age = now - datetime.fromtimestamp(facts.st_mtime, UTC)
            if facts.st_nlink == 1 and age > max(SHORTEST_KEPT, timedelta(days=self.days)):
                body.unlink(missing_ok=True)
        return gone

    def body(self, sha256: str, spool: Spool) -> bytes | Path | None:
        """Return a stored body by its hash; None when it is not here, or no longer what it was.

        Args:
            spool: takes bodies that are too large for memory.
        """
        place = self._object(sha256)
        try:
            found = unpacked(place, spool)
        except (OSError, EOFError):
            return None
        if hash_of(found) == sha256:
            return found
        place.unlink(missing_ok=True)  # a crash of the machine cut it; the next run stores it anew
        return None

    def _object(self, sha256: str) -> Path:
        return self.folder / OBJECTS / sha256[:2] / f"{sha256}.gz"


def archive_of(settings: Settings) -> Archive:
    """Return the archive that the settings describe."""
    values = (getattr(settings, name) for name in type(settings).model_fields)
    words = {v.get_secret_value() for v in values if isinstance(v, SecretStr)}
    secrets = sorted(word.encode() for word in words if len(word) >= SHORTEST_SECRET)
    return Archive(settings.archive_dir, settings.archive_days, tuple(secrets))


def facts_of(payload: Payload) -> PayloadFacts:
    """Return name, address, hash and size of a payload."""
    return _examined(payload, ())[0]


def _examined(payload: Payload, secrets: Sequence[bytes]) -> tuple[PayloadFacts, bool]:
    """Return a payload's facts, and whether it holds one of the secrets."""
    digest, size, leaks = hashlib.sha256(), 0, False
    overlap = max(map(len, secrets), default=1) - 1
    tail = b""
    with payload.open() as stream:
        while block := stream.read(_BLOCK):
            digest.update(block)
            size += len(block)
            seen = tail + block
            leaks = leaks or any(secret in seen for secret in secrets)
            tail = seen[-overlap:] if overlap else b""
    facts = PayloadFacts(payload.name, payload.url, digest.hexdigest(), size, payload.fetched_at)
    return facts, leaks


def _row(item: PayloadFacts, file: str) -> dict[str, object]:
    return {
        "name": item.name,
        "file": file,
        "url": item.url,
        "fetched_at": iso(item.fetched_at),
        "sha256": item.sha256,
        "size_bytes": item.size_bytes,
    }


def _written_at(folder: Path) -> datetime:
    with suppress(OSError, ValueError, KeyError, TypeError):
        return parse_instant(json.loads((folder / MANIFEST).read_text("utf-8"))["written_at"])
    return datetime.fromtimestamp(folder.stat().st_mtime, UTC)


def unpacked(path: Path, spool: Spool) -> bytes | Path:
    """Read a packed body; a large one goes to a file of ``spool``.

    Raises:
        OSError, EOFError: it is not there, or no whole gzip file.
    """
    with gzip.open(path, "rb") as packed:
        head = packed.read(SPOOL_ABOVE_BYTES + 1)
        if len(head) <= SPOOL_ABOVE_BYTES:
            return head
        with spool.new_file() as out:
            out.write(head)
            shutil.copyfileobj(packed, out, _BLOCK)
            return Path(out.name)


def hash_of(body: bytes | Path) -> str:
    """Return the SHA-256 of a body in hexadecimal."""
    if isinstance(body, bytes):
        return hashlib.sha256(body).hexdigest()
    with body.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


@contextmanager
def _fresh_file(target: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name only when it is whole."""
    number, name = tempfile.mkstemp(prefix=".", suffix=".tmp", dir=target.parent)
    fresh = Path(name)
    try:
        with os.fdopen(number, "wb") as out:
            yield out
        fresh.replace(target)
    except BaseException:
        fresh.unlink(missing_ok=True)
        raise


def _link(source: Path, target: Path) -> None:
    """Give a file a second name, or copy it where the file system knows no such thing."""
    try:
        target.hardlink_to(source)
    except FileNotFoundError:
        raise
    except OSError:
        shutil.copyfile(source, target)
