"""A database that holds the bundled prices, made once and copied for each test."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from core.clock import FixedClock
from db.engine import make_engine
from db.migrate import upgrade
from pricing.snapshot.load import load_snapshot


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("snapshot") / "filled.db"
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine)
    load_snapshot(engine, FixedClock(datetime(2026, 12, 1, tzinfo=UTC)))
    engine.dispose()
    return path


@pytest.fixture
def snapshot(filled: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database of one's own that holds the bundled prices."""
    own = tmp_path / "own.db"
    shutil.copy(filled, own)
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{own}")
    return own
