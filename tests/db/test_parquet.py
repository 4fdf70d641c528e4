from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa  # type: ignore[import-untyped]
import pyarrow.parquet as pq  # type: ignore[import-untyped]
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from sqlalchemy import Table, UniqueConstraint, delete, insert, select, update

from core.errors import ConfigError, InputError
from core.market import Availability, Failure, Parsed, PurchaseOption, Rejected
from db.engine import Database, make_engine, reading, writing
from db.migrate import head, upgrade
from db.models import Base, RunRow
from db.parquet import LEFT_OUT, MANIFEST, TABLES, export_tables, import_tables
from tests.builders import T0, a_report, a_tariff, an_observation, an_offer, hour, look, write

NOW = datetime(2026, 12, 1, tzinfo=UTC)


def content(database: Database) -> dict[str, list[tuple[Any, ...]]]:
    """Every row of every exported table."""
    with reading(database) as session:
        return {
            table.name: [
                tuple(row)
                for row in session.execute(select(table).order_by(*table.primary_key.columns))
            ]
            for table in TABLES
        }


def empty(database: Database) -> None:
    with writing(database) as session:
        for table in reversed(TABLES):
            session.execute(delete(table))


@contextmanager
def another() -> Iterator[Database]:
    """A fresh migrated SQLite database."""
    with TemporaryDirectory(prefix="db-") as folder:
        engine = make_engine(f"sqlite:///{folder}/other.db")
        upgrade(engine)
        yield engine
        engine.dispose()


def fill(database: Database) -> None:
    """Some of everything that a run brings, over three looks."""
    offers = [
        an_offer(instance_type="a", usd_per_hour="2.000000001", observed_at=T0),
        an_offer(
            instance_type="slice",
            gpu_count="0.125",
            usd_per_hour="0.3",
            purchase_option=PurchaseOption.SPOT,
            zone="z1",
            vcpu=3,
            ram_gib="15.3",
            egress_usd_per_gb="0",
            availability=Availability.LIMITED,
            note="näive “quotes”, a 'tick' and a tab?",
            observed_at=T0,
        ),
    ]
    parsed = Parsed(
        offers=offers,
        rejected=[Rejected("zero_price", "a row", '{"usd": 0}', "prices.json", 3)],
        failures=[Failure("truncated", "half a body", "b.json")],
        egress=[a_tariff(("0", "0"), ("100", "0.09"), ("10240", None), free="100")],
        observations=[an_observation()],
    )
    write(database, a_report(offers, parsed=parsed))
    look(database, hour(1), {"a": "3", "b": "1"})
    look(database, hour(2), {"b": "1"})


@pytest.fixture
def filled(database: Database) -> Database:
    fill(database)
    return database


def test_every_table_is_exported_or_left_out_by_name() -> None:
    names = {table.name for table in TABLES}
    assert names | LEFT_OUT == set(Base.metadata.tables)
    assert not names & LEFT_OUT


def test_an_export_into_either_kind_of_database_gives_every_row_back(
    filled: Database, tmp_path: Path
) -> None:
    before = content(filled)
    assert all(before[name] for name in ("offer", "price_span", "rejection", "egress_tier"))
    moved = export_tables(filled, tmp_path / "out", NOW)
    assert moved.rows == {name: len(rows) for name, rows in before.items()}
    with another() as other:
        assert import_tables(other, tmp_path / "out") == moved
        assert content(other) == before
        export_tables(other, tmp_path / "back", NOW)
    empty(filled)
    import_tables(filled, tmp_path / "back")
    assert content(filled) == before
    for table in TABLES:
        name = f"{table.name}.parquet"
        assert (tmp_path / "out" / name).read_bytes() == (tmp_path / "back" / name).read_bytes()


def test_after_an_import_the_next_run_goes_on_where_the_first_database_stood(
    filled: Database, tmp_path: Path
) -> None:
    export_tables(filled, tmp_path / "out", NOW)
    empty(filled)
    import_tables(filled, tmp_path / "out")
    result = look(filled, hour(3), {"b": "1", "c": "5"})
    assert (result.opened, result.kept, result.closed) == (1, 1, 0)
    assert result.run_id == 4


def test_the_files_say_exact_decimals_and_utc(filled: Database, tmp_path: Path) -> None:
    tmp_path /= "out"
    export_tables(filled, tmp_path, NOW)
    spans = pq.read_table(tmp_path / "price_span.parquet")
    assert spans.schema.field("usd_per_hour").type == pa.decimal128(19, 9)
    assert spans.schema.field("valid_from").type == pa.timestamp("us", tz="UTC")
    assert Decimal("2.000000001") in spans.column("usd_per_hour").to_pylist()
    manifest = json.loads((tmp_path / MANIFEST).read_text("utf-8"))
    assert (manifest["format"], manifest["revision"]) == (1, head())
    entry = manifest["tables"]["price_span"]
    body = (tmp_path / "price_span.parquet").read_bytes()
    assert entry == {
        "rows": spans.num_rows,
        "bytes": len(body),
        "sha256": hashlib.sha256(body).hexdigest(),
    }


def values_of(column: Any) -> st.SearchStrategy[Any]:
    """Whatever a column can hold, extremes included."""
    kind = type(column.type).__name__
    found: st.SearchStrategy[Any]
    if kind == "NanoUsd":
        found = st.integers(1 - 2**63, 2**63 - 1).map(lambda n: Decimal(n) * Decimal("1e-9"))
    elif kind == "Milli":
        found = st.integers(-(2**63), 2**63 - 1).map(lambda n: Decimal(n).scaleb(-3))
    elif kind == "UtcDateTime":
        found = st.datetimes(datetime(1970, 1, 2), datetime(9998, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001
    elif kind == "Boolean":
        found = st.booleans()
    elif kind == "String":
        found = st.text(
            st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
            max_size=column.type.length,
        )
    elif kind == "BigInteger":
        found = st.integers(-(2**63), 2**63 - 1)
    else:
        found = st.integers(-(2**31), 2**31 - 1)
    return st.none() | found if column.nullable else found


def key_of(column: Any, number: int) -> object:
    kind = type(column.type).__name__
    if kind == "String":
        return f"key {number}"
    if kind == "UtcDateTime":
        return T0 + timedelta(days=number)
    return Decimal(number) if kind == "Milli" else number * 7


def unique_columns(table: Table) -> set[str]:
    """Columns that must differ from row to row: one of each rule of the table is enough."""
    rules = [c for c in table.constraints if isinstance(c, UniqueConstraint)]
    return {
        next(column.name for column in rule.columns if not column.foreign_keys) for rule in rules
    }


@st.composite
def markets(draw: st.DrawFn) -> dict[str, list[dict[str, Any]]]:
    """Rows for every table that no program of ours would write, but that the tables can hold."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for table in TABLES:
        made: list[dict[str, Any]] = []
        unique = unique_columns(table)
        for number in range(1, draw(st.integers(1, 3)) + 1):
            row: dict[str, Any] = {}
            for column in table.columns:
                if column.foreign_keys:
                    (key,) = column.foreign_keys
                    parents = rows[key.column.table.name]
                    # A key that must be unique takes each parent once, others take any.
                    taken = column.primary_key or table.name == "price_span"
                    chosen = (
                        parents[(number - 1) % len(parents)]
                        if taken
                        else draw(st.sampled_from(parents))
                    )
                    row[column.name] = chosen[key.column.name]
                elif column.primary_key or column.name in unique:
                    row[column.name] = key_of(column, number)
                else:
                    row[column.name] = draw(values_of(column))
            made.append(row)
        rows[table.name] = list(
            {tuple(r[c.name] for c in table.primary_key): r for r in made}.values()
        )
    return rows


@settings(
    max_examples=8,
    phases=[Phase.generate],  # a market of sixteen tables takes minutes to shrink
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(data=st.data())
def test_whatever_the_tables_can_hold_comes_back_exactly(
    database: Database, data: st.DataObject
) -> None:
    empty(database)
    rows = data.draw(markets())
    for row in rows["price_span"]:  # one open span an offer: the tables' own rule
        row["valid_to"] = row["valid_to"] or T0
    for row in rows["egress_tariff"]:
        row["valid_to"] = row["valid_to"] or T0
    with writing(database) as session:
        for table in TABLES:
            session.execute(insert(table), rows[table.name])
    before = content(database)
    with TemporaryDirectory(prefix="out-") as name, another() as other:
        export_tables(database, Path(name), NOW)
        import_tables(other, Path(name))
        assert content(other) == before
        empty(database)
        import_tables(database, Path(name))
    assert content(database) == before


def test_an_export_sees_one_moment_though_runs_are_written_meanwhile(
    filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = content(filled)
    at = iter(range(3, 99))

    def written_meanwhile(path: Path) -> str:
        look(filled, hour(next(at)), {"b": "7", "later": "4"})
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr("db.parquet._hash", written_meanwhile)
    export_tables(filled, tmp_path / "out", NOW)
    monkeypatch.undo()
    assert content(filled) != before
    with another() as other:
        import_tables(other, tmp_path / "out")
        assert content(other) == before


def broken_at(step: str) -> Callable[[pytest.MonkeyPatch], None]:
    def apply(monkeypatch: pytest.MonkeyPatch) -> None:
        def fail(*_words: object) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(f"db.parquet.{step}", fail)

    return apply


@pytest.mark.parametrize("step", ["_hash", "_write_manifest", "Path.replace"])
def test_an_export_that_was_cut_off_is_never_taken_for_whole(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    fill(sqlite)
    with monkeypatch.context() as patch:
        broken_at(step)(patch)
        with pytest.raises(KeyboardInterrupt):
            export_tables(sqlite, tmp_path / "out", NOW)
    with another() as other:
        with pytest.raises(InputError, match="no whole export"):
            import_tables(other, tmp_path / "out")
        assert not any(content(other).values())
    with pytest.raises(InputError, match="files, but no whole export; name a new"):
        export_tables(sqlite, tmp_path / "out", NOW)


def test_a_folder_that_holds_an_export_is_not_written_over(
    sqlite: Database, tmp_path: Path
) -> None:
    export_tables(sqlite, tmp_path / "out", NOW)
    with pytest.raises(InputError, match="holds an export"):
        export_tables(sqlite, tmp_path / "out", NOW)


def test_a_folder_that_cannot_be_made_is_one_clear_line(sqlite: Database, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(ConfigError, match="the export is not whole"):
        export_tables(sqlite, tmp_path / "file" / "out", NOW)


def refused(folder: Path, match: str) -> AbstractContextManager[Any]:
    @contextmanager
    def check() -> Iterator[None]:
        yield
        with another() as other:
            with pytest.raises(InputError, match=match):
                import_tables(other, folder)
            assert not any(content(other).values()), "nothing was written"

    return check()


@pytest.fixture
def exported(sqlite: Database, tmp_path: Path) -> Path:
    fill(sqlite)
    export_tables(sqlite, tmp_path / "out", NOW)
    return tmp_path / "out"


def changed(folder: Path, **changes: object) -> None:
    path = folder / MANIFEST
    path.write_text(json.dumps(json.loads(path.read_text("utf-8")) | changes), "utf-8")


def test_another_format_or_schema_is_refused(exported: Path) -> None:
    with refused(exported, "format 2, this program reads format 1"):
        changed(exported, format=2)
    with refused(exported, f"exported from schema '0001', this program has {head()}"):
        changed(exported, format=1, revision="0001")


def test_a_manifest_that_is_none_is_refused(exported: Path) -> None:
    with refused(exported, "does not name the tables"):
        changed(exported, tables={"offer": {}})
    with refused(exported, "no rows, bytes and sha256 for"):
        changed(exported, tables={table.name: {"rows": 1} for table in TABLES})
    for text, match in (("[]", "format None"), ("{", "is not JSON")):
        with refused(exported, match):
            (exported / MANIFEST).write_text(text, "utf-8")


def test_a_file_that_was_changed_or_lost_is_refused(exported: Path) -> None:
    with refused(exported, "is not the file that was exported"):
        path = exported / "price_span.parquet"
        body = bytearray(path.read_bytes())
        body[len(body) // 2] ^= 1
        path.write_bytes(bytes(body))
    with refused(exported, "cannot be read"):
        (exported / "price_span.parquet").unlink()


def forged(folder: Path, name: str, body: bytes, **changes: object) -> None:
    """A file and a manifest that agrees with it."""
    (folder / f"{name}.parquet").write_bytes(body)
    tables = json.loads((folder / MANIFEST).read_text("utf-8"))["tables"]
    tables[name] |= {"sha256": hashlib.sha256(body).hexdigest(), **changes}
    changed(folder, tables=tables)


def test_a_file_that_is_no_parquet_or_of_another_table_is_refused(exported: Path) -> None:
    whole = (exported / "price_span.parquet").read_bytes()
    with refused(exported, "export the database again"):
        forged(exported, "price_span", b"PAR1 is all there is of it PAR1")
    with refused(exported, "other columns than table price_span"):
        forged(exported, "price_span", (exported / "offer.parquet").read_bytes())
    with refused(exported, "rows, not 99"):
        forged(exported, "price_span", whole, rows=99)


def test_spans_of_offers_that_are_not_there_are_refused(exported: Path) -> None:
    with refused(exported, "export the database again"):
        path = exported / "offer.parquet"
        few = pq.read_table(path).slice(0, 1)
        pq.write_table(few, path)
        forged(exported, "offer", path.read_bytes(), rows=1)


def test_an_import_goes_only_into_an_empty_database(filled: Database, tmp_path: Path) -> None:
    export_tables(filled, tmp_path / "out", NOW)
    before = content(filled)
    with pytest.raises(InputError, match="is not empty"):
        import_tables(filled, tmp_path / "out")
    assert content(filled) == before


def test_an_import_that_is_cut_off_leaves_the_database_empty(
    filled: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    export_tables(filled, tmp_path / "out", NOW)
    empty(filled)
    with monkeypatch.context() as patch:
        broken_at("_restart_numbering")(patch)
        with pytest.raises(KeyboardInterrupt):
            import_tables(filled, tmp_path / "out")
    assert not any(content(filled).values())


def test_rows_beyond_one_batch_come_back(
    sqlite: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("db.parquet._BATCH_ROWS", 3)
    for number in range(11):
        look(sqlite, hour(number), {"a": str(number + 1)})
    with writing(sqlite) as session:
        session.execute(update(RunRow).where(RunRow.id == 5).values(detail="the fifth"))
    before = content(sqlite)
    export_tables(sqlite, tmp_path / "out", NOW)
    with another() as other:
        import_tables(other, tmp_path / "out")
        assert content(other) == before
