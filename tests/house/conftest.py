"""Fixtures for the tests of the repository itself."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.house.standins import Tree, plant


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return plant(tmp_path)
