"""Bodies of answers: decoded piece by piece, never above a limit, large ones kept in a file."""

from __future__ import annotations

import tempfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from core.errors import SourceError

SPOOL_ABOVE_BYTES = 8 * 2**20
_STEP_BYTES = 256 * 1024


class Spool:
    """A folder for large bodies; it and they go when it is closed.

    Args:
        parent: where to make the folder; the system's place for temporary files if None.
    """

    def __init__(self, parent: Path | None) -> None:
        self._parent = parent
        self._folder: tempfile.TemporaryDirectory[str] | None = None

    def new_file(self) -> IO[bytes]:
        """Open a new file for writing; it stays when closed.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="spotfloor-", dir=self._parent)
        return tempfile.NamedTemporaryFile(dir=self._folder.name, delete=False)

    def close(self) -> None:
        """Remove everything."""
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


def receive(
    pieces: Iterable[bytes], encoding: str, limit: int, spool: Spool, where: str
) -> bytes | Path:
    """Decode a body and keep it, in memory or, above 8 MiB, in a file of ``spool``.

    Args:
        pieces: the body as it came over the wire.
        encoding: its Content-Encoding.
        limit: most bytes after decoding; a gzip bomb is left as soon as it passes this.
        where: host and path, for messages.

    Raises:
        SourceError: ``too_large``, ``bad_encoding``, or ``spool_failed`` for a full disk.
    """
    kept = bytearray()
    size = 0
    file: IO[bytes] | None = None
    complete = False
    try:
        for piece in decoded(pieces, encoding, where):
            size += len(piece)
            if size > limit:
                raise too_large(where, limit)
            if file is None and size > SPOOL_ABOVE_BYTES:
                file = spool.new_file()
                file.write(kept)
                kept.clear()
            if file is None:
                kept += piece
            else:
                file.write(piece)
        if file is None:
            return bytes(kept)
        file.close()
        complete = True
        return Path(file.name)
    except OSError as error:
        raise SourceError(
            f"{where}: the body cannot be kept in a temporary file: {error.strerror};"
            " free some space or set TMPDIR",
            reason="spool_failed",
        ) from error
    finally:
        if file is not None and not complete:
            _discard(file)


def _discard(file: IO[bytes]) -> None:
    """Remove what an incomplete body left, so that retries do not fill the disk."""
    with suppress(OSError):  # a full disk again; what could not be written is not wanted
        file.close()
    Path(file.name).unlink(missing_ok=True)


def too_large(where: str, limit: int) -> SourceError:
    """The error for a body above ``limit`` bytes."""
    return SourceError(
        f"{where}: the body is larger than {limit / 2**20:g} MiB", reason="too_large"
    )


def decoded(pieces: Iterable[bytes], encoding: str, where: str) -> Iterator[bytes]:
    """Undo the Content-Encoding; no piece is larger than 256 KiB unless it came so.

    Raises:
        SourceError: ``bad_encoding``: not what we asked for, broken, or cut off.
    """
    name = encoding.strip().lower()
    if name in {"", "identity"}:
        return iter(pieces)
    if name in {"gzip", "x-gzip"}:
        return _gunzip(pieces, where)
    raise SourceError(
        f"{where}: an encoding that was not asked for: {name[:20]!r}", reason="bad_encoding"
    )


def _gunzip(pieces: Iterable[bytes], where: str) -> Iterator[bytes]:
    engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
    inside = False
    try:
        for raw in pieces:
            while True:
                if engine.eof:
                    raw = raw.lstrip(b"\0")  # zeros after the end are padding, as in gzip(1)
                    if not raw:
                        break
                    engine = zlib.decompressobj(zlib.MAX_WBITS | 16)
                inside = inside or bool(raw)
                piece = engine.decompress(raw, _STEP_BYTES)
                raw = engine.unused_data if engine.eof else engine.unconsumed_tail
                inside = inside and not engine.eof
                if piece:
                    yield piece
                # A full piece may leave output inside the engine although no input is left.
                if not raw and len(piece) < _STEP_BYTES:
                    break
    except zlib.error as error:
        raise SourceError(f"{where}: bad gzip: {error}", reason="bad_encoding") from error
    if inside:
        raise SourceError(f"{where}: the gzip body ends in the middle", reason="bad_encoding")
