"""Databases for pages: an empty one and one with the bundled prices."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import streamlit as st

from core.clock import FixedClock
from db.engine import Database, make_engine
from db.migrate import upgrade
from pricing.snapshot.load import load_snapshot


@pytest.fixture
def page_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    url = f"sqlite:///{tmp_path / 'page.db'}"
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", url)
    st.cache_data.clear()
    st.cache_resource.clear()
    engine = make_engine(url)
    yield engine
    engine.dispose()
    st.cache_resource.clear()


@pytest.fixture(scope="session")
def bundled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A database file with the bundled prices, made once."""
    path = tmp_path_factory.mktemp("bundled") / "bundled.db"
    engine = make_engine(f"sqlite:///{path}")
    upgrade(engine)
    load_snapshot(engine, FixedClock(datetime(2026, 12, 1, tzinfo=UTC)))
    engine.dispose()
    return path


@pytest.fixture
def filled(page_database: Database, bundled: Path) -> Database:
    assert page_database.url.database is not None
    shutil.copy(bundled, page_database.url.database)
    return page_database
