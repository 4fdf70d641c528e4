"""The whole market as a folder of Parquet files, and back, exactly.

One file per table, money and quantities as exact decimals, times in UTC. ``manifest.json`` names
every file with its rows and SHA-256 and is written last, under another name first: a folder
without it is a broken export, whatever else lies there. An import checks every file before it
writes, goes only into an empty database, and is one transaction.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
from sqlalchemy import Boolean, Column, Integer, String, Table, func, insert, select, text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from core.clock import iso
from core.errors import ConfigError, InputError
from db.engine import Database, reading, shown, writing
from db.migrate import head
from db.models import Base, SpanRow
from db.partitions import add_months, month_of, months
from db.types import Milli, NanoUsd, UtcDateTime

FORMAT = 1
MANIFEST = "manifest.json"

LEFT_OUT = frozenset(
    {"job_claim", "worker", "source_health", "payload_validator"}
    | {"endpoint", "delivery", "api_token"}
)
"""Tables of the moment, which mean nothing in another database: who works on what, which source is
left alone until when, and which payload versions this machine holds. And those with secrets and
what was sent by them: a folder of prices may be handed on, and another machine cannot open what
this one's key has sealed."""

TABLES: tuple[Table, ...] = tuple(
    table for table in Base.metadata.sorted_tables if table.name not in LEFT_OUT
)
"""What an export holds, in an order in which a row comes after those it refers to."""

_BATCH_ROWS = 20_000
MOST_MONTHS = 60
"""Months that get a partition of their own at an import."""
_CHUNK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Moved:
    """What an export or an import moved: rows by table, and bytes of all files."""

    rows: Mapping[str, int]
    size_bytes: int


def export_tables(database: Database, folder: Path, now: datetime) -> Moved:
    """Write every table of ``TABLES`` as it is at one moment.

    Args:
        folder: made if missing; must be empty.
        now: the instant noted in the manifest.

    Raises:
        InputError: the folder is not empty.
        ConfigError: it cannot be written.
        DatabaseError: the database cannot be read.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            whole = "an export" if (folder / MANIFEST).exists() else "files, but no whole export"
            raise InputError(f"{folder} holds {whole}; name a new or empty folder")
        with reading(database) as session:
            _freeze(session)
            files = {table.name: _write(session, table, folder) for table in TABLES}
        _write_manifest(folder, files, now)
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"{folder}: {reason}; the export is not whole, name a folder that can be written to"
        ) from None
    return Moved(
        {name: entry["rows"] for name, entry in files.items()},
        sum(entry["bytes"] for entry in files.values()),
    )


def import_tables(database: Database, folder: Path) -> Moved:
    """Read an export into an empty database of this program's schema, keys and all.

    Raises:
        InputError: no whole export, one of another version, a file that is not the one that was
            exported, or a database that is not empty; nothing is written then.
        DatabaseError: the database cannot be written; nothing is half-written.
    """
    files = _read_manifest(folder)
    for name, entry in files.items():
        _verify(folder, name, entry)
    with writing(database) as session:
        for table in TABLES:
            if session.execute(select(table).limit(1)).first() is not None:
                raise InputError(
                    f"database {shown(database)} is not empty (table {table.name}); an import"
                    " needs an empty one: name a new one in SPOTFLOOR_DATABASE_URL"
                )
        try:
            _make_months(session, folder)
            for table in TABLES:
                _load(session, table, folder, files[table.name]["rows"])
            session.flush()
        except (pa.ArrowException, IntegrityError, ValueError) as error:
            words = str(error).splitlines()[0]
            raise InputError(f"{folder}: {words}; export the database again") from None
        _restart_numbering(session)
    return Moved(
        {name: entry["rows"] for name, entry in files.items()},
        sum(entry["bytes"] for entry in files.values()),
    )


def _freeze(session: Session) -> None:
    """See one state of the database throughout: SQLite's read transaction does so by itself."""
    if session.get_bind().dialect.name == "postgresql":
        session.connection(execution_options={"isolation_level": "REPEATABLE READ"})


def _arrow_type(column: Column[Any]) -> Any:
    kind = column.type
    if isinstance(kind, NanoUsd):
        return pa.decimal128(19, 9)
    if isinstance(kind, Milli):
        return pa.decimal128(19, 3)
    if isinstance(kind, UtcDateTime):
        return pa.timestamp("us", tz="UTC")
    if isinstance(kind, Boolean):
        return pa.bool_()
    if isinstance(kind, Integer):
        return pa.int64()
    if isinstance(kind, String):
        return pa.string()
    raise TypeError(f"{column}: no Parquet type is known for {kind!r}")


def arrow_schema(table: Table) -> Any:
    """Return the Parquet schema of a table."""
    return pa.schema(
        [
            pa.field(column.name, _arrow_type(column), nullable=bool(column.nullable))
            for column in table.columns
        ]
    )


def _file(table_name: str) -> str:
    return f"{table_name}.parquet"


def _write(session: Session, table: Table, folder: Path) -> dict[str, Any]:
    path = folder / _file(table.name)
    schema = arrow_schema(table)
    query = select(table).order_by(*table.primary_key.columns)
    rows = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        found = session.execute(query, execution_options={"yield_per": _BATCH_ROWS})
        for part in found.partitions():
            columns = zip(*part, strict=True)
            arrays = [
                pa.array(values, type=field.type)
                for values, field in zip(columns, schema, strict=True)
            ]
            writer.write_batch(pa.record_batch(arrays, schema=schema))
            rows += len(part)
    _to_disk(path)
    return {"rows": rows, "bytes": path.stat().st_size, "sha256": _hash(path)}


def _write_manifest(folder: Path, files: Mapping[str, Any], now: datetime) -> None:
    document = {
        "format": FORMAT,
        "revision": head(),
        "exported_at": iso(now),
        "tables": dict(files),
    }
    unfinished = folder / f"{MANIFEST}.part"
    unfinished.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    _to_disk(unfinished)
    unfinished.replace(folder / MANIFEST)
    _to_disk(folder)


def _to_disk(path: Path) -> None:
    """Make sure that a file, or a folder's list of names, outlives a loss of power."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _hash(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def _read_manifest(folder: Path) -> dict[str, dict[str, Any]]:
    path = folder / MANIFEST
    try:
        document = json.loads(path.read_text("utf-8"))
    except OSError:
        raise InputError(
            f"{folder} holds no whole export ({MANIFEST} is missing); name the folder that"
            " 'spotfloor db export' wrote to its end"
        ) from None
    except ValueError:
        raise InputError(f"{path} is not JSON; export the database again") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else None
        raise InputError(
            f"{path}: format {found!r}, this program reads format {FORMAT};"
            " use the program that wrote it"
        )
    if document.get("revision") != head():
        raise InputError(
            f"{path}: exported from schema {document.get('revision')!r}, this program has"
            f" {head()}; import it with the program that wrote it, then run"
            " 'spotfloor db upgrade'"
        )
    tables = document.get("tables")
    wanted = {table.name for table in TABLES}
    if not isinstance(tables, dict) or set(tables) != wanted:
        raise InputError(f"{path} does not name the tables of this program; export again")
    for name, entry in tables.items():
        if (
            not isinstance(entry, dict)
            or not isinstance(entry.get("sha256"), str)
            or not all(isinstance(entry.get(key), int) for key in ("rows", "bytes"))
        ):
            raise InputError(f"{path}: no rows, bytes and sha256 for {name}; export again")
    return tables


def _verify(folder: Path, name: str, entry: Mapping[str, Any]) -> None:
    path = folder / _file(name)
    try:
        found = _hash(path)
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror}); the export is not whole"
        ) from None
    if found != entry["sha256"]:
        raise InputError(f"{path} is not the file that was exported (its SHA-256 differs)")


def _load(session: Session, table: Table, folder: Path, rows: int) -> None:
    path = folder / _file(table.name)
    with pq.ParquetFile(path) as file:
        if not file.schema_arrow.equals(arrow_schema(table)):
            raise ValueError(f"{path.name} has other columns than table {table.name}")
        if file.metadata.num_rows != rows:
            raise ValueError(f"{path.name} has {file.metadata.num_rows} rows, not {rows}")
        for batch in _batches(file):
            session.execute(insert(table), batch)


def _make_months(session: Session, folder: Path) -> None:
    """Let PostgreSQL have a partition for each month in which spans of the export ended.

    The footer of the file tells when the first one did. What lies further back than ``MOST_MONTHS``
    goes to the early ones.
    """
    have = months(session)
    if not have:
        return
    ends = SpanRow.__table__.c.valid_to
    path = folder / _file(ends.table.name)
    number = list(ends.table.columns).index(ends)
    with pq.ParquetFile(path) as file:
        groups = [file.metadata.row_group(n) for n in range(file.metadata.num_row_groups)]
        told = [group.column(number).statistics for group in groups]
    told = [item for item in told if item is not None and item.has_min_max]
    if told:
        furthest = have[-1].begin - MOST_MONTHS * timedelta(days=30)
        add_months(session, have[-1], month_of(max(furthest, min(item.min for item in told))))


def _batches(file: Any) -> Iterator[list[dict[str, Any]]]:
    for batch in file.iter_batches(batch_size=_BATCH_ROWS):
        if batch.num_rows:
            yield batch.to_pylist()


def _restart_numbering(session: Session) -> None:
    """Let PostgreSQL number new rows after those that came with their numbers."""
    if session.get_bind().dialect.name != "postgresql":
        return
    for table in TABLES:
        numbered = table.autoincrement_column
        if numbered is None:
            continue
        newest = session.execute(select(func.max(numbered))).scalar()
        if newest is not None:
            session.execute(
                text("SELECT setval(pg_get_serial_sequence(:table, :column), :newest)"),
                {"table": table.name, "column": numbered.name, "newest": newest},
            )
