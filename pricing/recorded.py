"""Recorded folders: ``DIR/<provider>/<file>``, named as the network run would name them.

What several providers read (exchange rates) may lie once in ``DIR/common/``.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import datetime
from pathlib import Path

from core.errors import ConfigError, InputError
from pricing.source import Payload, Provider

_NOT_PAYLOADS = ("expected_", "rejected_rows", "README", ".")
COMMON = "common"
SPOOL_ABOVE = 8 * 2**20
"""Files larger than this are streamed from disk instead of read whole."""


def provider_folders(folder: Path, providers: Sequence[Provider]) -> dict[str, Path]:
    """Find which providers have a folder in ``folder``.

    Raises:
        ConfigError: ``folder`` does not exist or holds no provider's folder.
    """
    if not folder.is_dir():
        raise ConfigError(f"--from {folder}: no such folder; give one that holds <provider>/<file>")
    found = {p.name: folder / p.name for p in providers if (folder / p.name).is_dir()}
    if not found:
        names = ", ".join(p.name for p in providers)
        raise ConfigError(
            f"--from {folder}: holds no folder named after a provider ({names});"
            " give the folder above them"
        )
    return found


def primary_payloads(provider: Provider, folder: Path, observed_at: datetime) -> list[Payload]:
    """Read the files that a network run of this provider would have produced.

    Raises:
        ConfigError: the folder has none of them.
    """
    names = sorted(
        path.name
        for path in folder.iterdir()
        if path.is_file() and not path.name.startswith(_NOT_PAYLOADS)
    )
    chosen = list(provider.primary(names))
    if not chosen:
        raise ConfigError(f"{folder}: none of its files is one that {provider.name} would fetch")
    own = [payload_of(folder / name, provider.name, observed_at) for name in chosen]
    return own + common_payloads(provider, folder, observed_at, chosen)


def common_payloads(
    provider: Provider, folder: Path, observed_at: datetime, have: Collection[str]
) -> list[Payload]:
    """Read what the provider shares with others, from ``common/`` beside its ``folder``.

    Args:
        have: file names already chosen; one of the shared ones among them was recorded with the
            run and is what it used, so nothing is added then.

    Raises:
        InputError: one of the files cannot be read.
    """
    if any(name in have for name in provider.common):
        return []
    place = folder.resolve().parent / COMMON
    paths = [place / name for name in provider.common]
    return [payload_of(path, COMMON, observed_at) for path in paths if path.is_file()]


def payload_of(path: Path, provider: str, observed_at: datetime) -> Payload:
    """Wrap one file.

    Raises:
        InputError: it cannot be read.
    """
    try:
        large = path.stat().st_size > SPOOL_ABOVE
        body = path if large else path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot read: {error.strerror}; give a payload file") from None
    return Payload(path.name, body, f"recorded:{provider}/{path.name}", observed_at)
