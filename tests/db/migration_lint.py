"""What a migration must not do to PostgreSQL tables that people are using meanwhile.

A migration runs while the old version still serves: it must not hold a lock for as long as a large
table takes to be read or rewritten, and must leave the old version's statements working. Tables
made by the same migration are empty and used by nobody, so anything may be done to them.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable
from typing import NamedTuple

from alembic.operations import Operations
from alembic.runtime.migration import MigrationContext


class Danger(NamedTuple):
    """One thing that a migration would do to a table in use."""

    rule: str
    table: str
    statement: str


class Rule(NamedTuple):
    """A kind of statement, and the way to do it without harm."""

    pattern: str
    mend: str


_TABLE = r'(?:ONLY )?"?(?P<table>\w+)"?'
_ALTER = rf"ALTER TABLE (?:IF EXISTS )?{_TABLE} "
_ADD_COLUMN = rf"{_ALTER}ADD (?:COLUMN )?(?!CONSTRAINT|PRIMARY|UNIQUE|FOREIGN|CHECK|EXCLUDE)"

RULES: dict[str, Rule] = {
    "not-null-without-default": Rule(
        rf"{_ADD_COLUMN}(?!.*\bDEFAULT\b).*\bNOT NULL",
        "give it a constant server_default: rows that are there, and those that the old version"
        " writes meanwhile, have no value",
    ),
    "rewrite-by-default": Rule(
        rf"{_ADD_COLUMN}.*(?:\bDEFAULT\b[^,]*\w\(|\b(?:BIG|SMALL)?SERIAL\b|\bGENERATED\b)",
        "a default that is computed for each row rewrites the table: add the column nullable, fill"
        " it in batches from the worker",
    ),
    "change-of-type": Rule(
        rf"{_ALTER}ALTER COLUMN .*\bTYPE\b",
        "it rewrites the table under the strongest lock: add a new column, fill it, switch over",
    ),
    "set-not-null": Rule(
        rf"{_ALTER}ALTER COLUMN .*\bSET NOT NULL",
        "it reads the whole table under the strongest lock: add a CHECK … NOT VALID, validate it in"
        " a later migration, then set NOT NULL",
    ),
    "constraint-that-reads-all": Rule(
        rf"{_ALTER}ADD (?:CONSTRAINT \S+ )?(?:FOREIGN KEY|CHECK)(?!.*\bNOT VALID\b)",
        "add it NOT VALID (postgresql_not_valid=True) and validate it in a later migration",
    ),
    "constraint-that-builds-an-index": Rule(
        rf"{_ALTER}ADD (?:CONSTRAINT \S+ )?(?:UNIQUE|PRIMARY KEY|EXCLUDE)(?!.*\bUSING INDEX\b)",
        "build the index CONCURRENTLY first, then add the constraint USING INDEX",
    ),
    "index-that-stops-writers": Rule(
        rf"CREATE (?:UNIQUE )?INDEX (?!CONCURRENTLY)(?:IF NOT EXISTS )?\S+ ON {_TABLE}",
        "build it with postgresql_concurrently=True inside op.get_context().autocommit_block()",
    ),
    "takes-from-the-old-version": Rule(
        rf"(?:{_ALTER}(?:DROP (?!CONSTRAINT|NOT NULL|DEFAULT)|RENAME)|DROP TABLE (?:IF EXISTS )?"
        rf'"?(?P<dropped>\w+)"?)',
        "processes of the old version still use it: stop using it in one release, drop it in the"
        " next",
    ),
    "whole-table-at-once": Rule(
        rf"(?:UPDATE {_TABLE} |DELETE FROM {_TABLE.replace('table', 'emptied')}"
        rf'|TRUNCATE (?:TABLE )?"?(?P<cut>\w+)|LOCK TABLE "?(?P<locked>\w+))',
        "every row stays locked until the migration ends: do it in batches from the worker",
    ),
}


def statements_of(upgrade: Callable[[], None]) -> list[str]:
    """Return the SQL that a migration would send to PostgreSQL, one statement each, in one line."""
    text = io.StringIO()
    context = MigrationContext.configure(
        dialect_name="postgresql", opts={"as_sql": True, "output_buffer": text}
    )
    with Operations.context(context):
        upgrade()
    joined = (" ".join(part.split()) for part in re.split(r";\s*\n", text.getvalue()))
    return [statement for statement in joined if statement]


def dangers(statements: list[str]) -> list[Danger]:
    """Judge statements in their order; tables they create are free from then on."""
    own: set[str] = set()
    found = []
    for statement in statements:
        if made := re.match(r'CREATE TABLE (?:IF NOT EXISTS )?"?(\w+)', statement, re.IGNORECASE):
            own.add(made[1])
        for name, rule in RULES.items():
            match = re.match(rule.pattern, statement, re.IGNORECASE)
            if match is None:
                continue
            table = next(value for value in match.groupdict().values() if value is not None)
            if table not in own:
                found.append(Danger(name, table, statement))
    return found
