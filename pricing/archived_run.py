"""Reading one run of the archive again: the same payloads, under their own names and times."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from core.clock import parse_instant
from core.errors import DataError
from core.market import Failure
from db.records import PayloadFacts
from pricing.archive import MANIFEST, SCHEMA, hash_of, unpacked
from pricing.bodies import Spool
from pricing.source import Payload


def is_archived(folder: Path) -> bool:
    """Whether a folder is one run of an archive."""
    return (folder / MANIFEST).is_file()


@contextmanager
def opened(
    folder: Path, expected: Sequence[PayloadFacts] | None = None
) -> Iterator[tuple[str, list[Payload], list[Failure]]]:
    """Read one run of an archive: provider, payloads under their own times, failed parts.

    Large bodies live in a temporary folder until the context is left.

    Args:
        folder: ``ARCHIVE/<run>``.
        expected: what the run log says that the run read.

    Raises:
        DataError: there is no such run, or it is damaged or another one.
    """
    manifest = _manifest(folder)
    spool = Spool(None)
    try:
        payloads = [_payload(folder, row, spool) for row in manifest["payloads"]]
        failures = [Failure(*row) for row in manifest["failures"]]
        if expected is not None:
            kept = sorted((row["name"], row["sha256"]) for row in manifest["payloads"])
            if kept != sorted((item.name, item.sha256) for item in expected):
                raise DataError(
                    f"{folder}: its payloads are not those of this run; the archive is of another"
                    " database, or a payload was left out"
                )
        yield manifest["provider"], payloads, failures
    finally:
        spool.close()


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / MANIFEST).read_text("utf-8"))
        if manifest["schema"] != SCHEMA:
            raise ValueError(f"schema {manifest['schema']!r}, expected {SCHEMA}")
        _check(manifest)
    except FileNotFoundError:
        raise DataError(
            f"{folder}: no such run in the archive; it is kept for SPOTFLOOR_ARCHIVE_DAYS, on the"
            " machine that collected it"
        ) from None
    except (OSError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise DataError(
            f"{folder / MANIFEST}: cannot be read: {type(error).__name__}: {error}; restore it"
        ) from None
    assert isinstance(manifest, dict)
    return manifest


def _check(manifest: dict[str, Any]) -> None:
    """Raise what a malformed manifest raises."""
    texts = [manifest["provider"]]
    for row in manifest["payloads"]:
        texts += [row[name] for name in ("name", "file", "url", "sha256", "fetched_at")]
        parse_instant(row["fetched_at"])
    for row in manifest["failures"]:
        reason, detail, file = row
        texts += [reason, detail, file]
    if not all(isinstance(text, str) for text in texts):
        raise TypeError("a field is no text")


def _payload(folder: Path, row: dict[str, Any], spool: Spool) -> Payload:
    path = folder / row["file"]
    try:
        if folder.resolve() not in path.resolve().parents:
            raise ValueError("a file outside of the run's folder")
        body = unpacked(path, spool)
    except (OSError, EOFError, ValueError) as error:
        raise DataError(f"{path}: cannot be read: {error}; restore it") from None
    if hash_of(body) != row["sha256"]:
        raise DataError(f"{path}: is not what the run read (its hash differs); restore it")
    return Payload(row["name"], body, row["url"], parse_instant(row["fetched_at"]))
