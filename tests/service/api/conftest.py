"""An API over a database of its own that holds the bundled prices, and the command line beside."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from core.clock import FixedClock
from core.settings import Settings
from db.engine import Database, make_engine
from service.api.app import create_app
from service.context import Context
from service.solving import Solver
from service.tokens import make_token
from tests.conftest import NOW

ADDRESS = "http://127.0.0.1:8502"

MakeClient = Callable[..., TestClient]


@pytest.fixture
def context(snapshot: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Context]:
    """The command line's clock stands still at the same instant."""
    clock = FixedClock(NOW)
    monkeypatch.setattr("service.context.SystemClock", lambda: clock)
    context = Context(clock)
    context.settings = Settings.model_validate({"database_url": f"sqlite:///{snapshot}"})
    context.database = make_engine(context.settings.database_url)
    yield context
    context.database.dispose()


@pytest.fixture(scope="session")
def solver() -> Solver:
    return Solver(seconds=100, at_once=4)


@pytest.fixture
def make_client(context: Context, solver: Solver) -> MakeClient:
    def make(*, open_reads: bool = True, **settings: Any) -> TestClient:
        context.settings = context.settings.model_copy(update=settings)
        app = create_app(context, open_reads=open_reads, solver=solver)
        return TestClient(app, base_url=ADDRESS, raise_server_exceptions=False)

    return make


@pytest.fixture
def client(make_client: MakeClient) -> TestClient:
    return make_client()


@pytest.fixture
def database(context: Context) -> Database:
    return context.database


@pytest.fixture
def writer(database: Database) -> dict[str, str]:
    """The header of a token that may save plans."""
    _, text = make_token(database, NOW, name="writer", scopes=["plans:write"])
    return {"Authorization": f"Bearer {text}"}
