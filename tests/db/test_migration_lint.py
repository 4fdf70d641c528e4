"""Every migration can run on a PostgreSQL database that is in use."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import op
from alembic.script import ScriptDirectory

from tests.db.migration_lint import RULES, dangers, statements_of
from tests.shared import ROOT

REVISIONS = {
    script.revision: script
    for script in reversed(list(ScriptDirectory(str(ROOT / "db" / "migrations")).walk_revisions()))
}

ALLOWED: dict[tuple[str, str], str] = {}
"""(revision, rule): why it does no harm there. Each entry must still be needed."""

LIVE = {
    "0005": "tests/db/test_partitions.py"
    "::test_a_filled_database_in_use_is_upgraded_with_nothing_lost",
}
"""Revisions that move rows in batches of their own, which no text can be made of; a test runs each
up and down on a filled database that is written to meanwhile, and cuts it off on the way."""


def test_the_revisions_are_one_line_in_the_order_of_their_numbers() -> None:
    names = list(REVISIONS)
    assert names == sorted(names)
    assert [script.down_revision for script in REVISIONS.values()] == [None, *names[:-1]]


@pytest.mark.parametrize("revision", [name for name in REVISIONS if name not in LIVE])
def test_a_migration_can_run_while_the_old_version_serves(revision: str) -> None:
    statements = statements_of(REVISIONS[revision].module.upgrade)
    assert statements
    found = [d for d in dangers(statements) if (revision, d.rule) not in ALLOWED]
    told = [f"{d.rule} on {d.table}: {RULES[d.rule].mend}\n  {d.statement}" for d in found]
    assert not found, "\n".join(told)


@pytest.mark.parametrize("revision", LIVE)
def test_a_migration_that_no_text_can_be_made_of_has_a_test_of_its_own(revision: str) -> None:
    with pytest.raises(AttributeError, match="exec_driver_sql"):
        statements_of(REVISIONS[revision].module.upgrade)
    path, _, name = LIVE[revision].partition("::")
    assert f"def {name}(" in (ROOT / path).read_text("utf-8")


def test_every_exception_is_needed_and_says_why() -> None:
    for (revision, rule), why in ALLOWED.items():
        statements = statements_of(REVISIONS[revision].module.upgrade)
        assert rule in {danger.rule for danger in dangers(statements)}
        assert len(why.split()) > 4


@pytest.mark.parametrize("revision", [name for name in REVISIONS if name not in LIVE])
def test_a_migration_can_be_undone(revision: str) -> None:
    """The other way round: what it makes, its downgrade drops."""
    module = REVISIONS[revision].module
    made = re.findall(r'CREATE TABLE "?(\w+)', "\n".join(statements_of(module.upgrade)))
    gone = re.findall(r'DROP TABLE "?(\w+)', "\n".join(statements_of(module.downgrade)))
    assert set(made) == set(gone)


def _new_column(*rules: sa.Identity, **options: Any) -> Callable[[], None]:
    def upgrade() -> None:
        op.add_column("offer", sa.Column("n", sa.Integer(), *rules, **options))

    return upgrade


def _concurrently() -> None:
    with op.get_context().autocommit_block():
        op.create_index("ix_a", "offer", ["zone"], postgresql_concurrently=True)


def _on_a_table_of_its_own() -> None:
    op.create_table("fresh", sa.Column("a", sa.Integer(), nullable=False))
    op.create_index("ix_a", "fresh", ["a"])
    op.create_unique_constraint("uq_a", "fresh", ["a"])
    op.execute("UPDATE fresh SET a = 1")


SAFE: dict[str, Callable[[], None]] = {
    "nullable column": _new_column(nullable=True),
    "constant default": _new_column(nullable=False, server_default=sa.text("0")),
    "index built beside": _concurrently,
    "its own table": _on_a_table_of_its_own,
    "foreign key for new rows": lambda: op.create_foreign_key(
        "fk_a", "offer", "provider", ["provider"], ["name"], postgresql_not_valid=True
    ),
    "default dropped": lambda: op.alter_column("offer", "n", server_default=None),
}

HARMFUL: list[tuple[str, Callable[[], None]]] = [
    ("not-null-without-default", _new_column(nullable=False)),
    ("rewrite-by-default", _new_column(server_default=sa.text("random()"))),
    ("rewrite-by-default", _new_column(sa.Identity())),
    ("change-of-type", lambda: op.alter_column("offer", "n", type_=sa.BigInteger())),
    ("set-not-null", lambda: op.alter_column("offer", "n", nullable=False)),
    (
        "constraint-that-reads-all",
        lambda: op.create_foreign_key("fk_a", "offer", "provider", ["provider"], ["name"]),
    ),
    ("constraint-that-reads-all", lambda: op.create_check_constraint("ck_a", "offer", "n > 0")),
    (
        "constraint-that-builds-an-index",
        lambda: op.create_unique_constraint("uq_a", "offer", ["zone"]),
    ),
    ("index-that-stops-writers", lambda: op.create_index("ix_a", "offer", ["zone"])),
    ("index-that-stops-writers", lambda: op.create_index("ix_a", "offer", ["zone"], unique=True)),
    ("takes-from-the-old-version", lambda: op.drop_column("offer", "zone")),
    ("takes-from-the-old-version", lambda: op.alter_column("offer", "a", new_column_name="b")),
    ("takes-from-the-old-version", lambda: op.drop_table("offer")),
    ("takes-from-the-old-version", lambda: op.rename_table("offer", "offers")),
    ("whole-table-at-once", lambda: op.execute("UPDATE offer SET zone = ''")),
    ("whole-table-at-once", lambda: op.execute("DELETE FROM price_span WHERE id > 1")),
    ("whole-table-at-once", lambda: op.execute("TRUNCATE price_span")),
    ("whole-table-at-once", lambda: op.execute("LOCK TABLE price_span")),
]


@pytest.mark.parametrize(("rule", "upgrade"), HARMFUL, ids=range(len(HARMFUL)))
def test_what_does_harm_is_found(rule: str, upgrade: Callable[[], None]) -> None:
    assert [danger.rule for danger in dangers(statements_of(upgrade))] == [rule]


@pytest.mark.parametrize("name", SAFE)
def test_what_does_no_harm_is_let_through(name: str) -> None:
    assert dangers(statements_of(SAFE[name])) == []


def test_every_rule_is_shown_to_find_something() -> None:
    assert {rule for rule, _ in HARMFUL} == set(RULES)
