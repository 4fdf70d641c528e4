"""``spotfloor db export``, ``import`` and ``prune`` as a user meets them."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from core.clock import SystemClock
from db.engine import make_engine
from db.migrate import upgrade
from tests.builders import look
from tests.service.inside import check, run


def test_an_exported_database_answers_alike_after_its_import(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = run("prices", "list", "--json").document["offers"]
    out = tmp_path / "out"
    told = check(run("db", "export", str(out), "--json").document)
    assert told["rows"]["offer"] == len(listed) > 100
    assert told["size_bytes"] == sum(path.stat().st_size for path in out.glob("*.parquet"))
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{tmp_path / 'second.db'}")
    again = check(run("db", "import", str(out), "--json").document)
    assert again["rows"] == told["rows"]
    assert run("prices", "list", "--json").document["offers"] == listed


def test_an_import_into_a_database_with_prices_is_refused(snapshot: Path, tmp_path: Path) -> None:
    assert run("db", "export", str(tmp_path / "out")).code == 0
    refused = run("db", "import", str(tmp_path / "out"))
    assert refused.code == 2
    assert "is not empty" in refused.error


def test_a_folder_without_an_export_is_refused(snapshot: Path, tmp_path: Path) -> None:
    refused = run("db", "import", str(tmp_path / "nothing"))
    assert refused.code == 2
    assert "no whole export" in refused.error


@pytest.fixture
def watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small database of four days of looks, whose last one is now."""
    path = tmp_path / "watched.db"
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{path}")
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine)
    now = SystemClock().now()
    for back in range(96, -1, -6):
        look(engine, now - timedelta(hours=back), {"a": "2", "b": str(1 + back % 5)})
    engine.dispose()
    return path


def test_pruning_tells_what_it_would_do_and_then_does_it(watched: Path) -> None:
    dry = check(run("db", "prune", "--keep-days", "2", "--dry-run", "--json").document)
    assert dry["dry_run"]
    real = check(run("db", "prune", "--keep-days", "2", "--json").document)
    assert real["spans_deleted"] > 0
    for key in ("offer_days_written", "spans_deleted", "reports_deleted", "pruned_before"):
        assert real[key] == dry[key], key
    again = check(run("db", "prune", "--keep-days", "2", "--json").document)
    assert (again["spans_deleted"], again["offer_days_written"]) == (0, 0)
    check(run("prices", "history", "--json").document)
    check(run("prices", "index", "--json").document)


@pytest.mark.parametrize("words", [(), ("--keep-days", "1"), ("--keep-days", "many")])
def test_pruning_needs_at_least_two_days_to_keep(snapshot: Path, words: tuple[str, ...]) -> None:
    assert run("db", "prune", *words).code == 2
