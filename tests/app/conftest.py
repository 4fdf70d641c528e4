"""Databases for pages: an empty one and one with the bundled prices."""

from __future__ import annotations

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


@pytest.fixture
def filled(page_database: Database) -> Database:
    upgrade(page_database)
    load_snapshot(page_database, FixedClock(datetime(2026, 12, 1, tzinfo=UTC)))
    return page_database
