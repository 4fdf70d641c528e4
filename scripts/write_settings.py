"""Write docs/settings.md from the settings themselves: ``python -m scripts.write_settings``."""

from __future__ import annotations

import types
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import SecretStr
from pydantic.fields import FieldInfo

from core.settings import PREFIX, Settings

PAGE = Path(__file__).resolve().parents[1] / "docs" / "settings.md"

_HEAD = """# Settings

Written by `python -m scripts.write_settings` from `core/settings.py`; change it there.

Each setting is a variable of the environment, or a key without `SPOTFLOOR_` and in small letters in
the TOML file that `SPOTFLOOR_CONFIG` names. A variable with `_FILE` behind its name reads its value
from that file, for secrets that are mounted. The environment goes before the file. A name that does
not exist is refused with the nearest one that does; an empty variable counts as not set.
`spotfloor doctor --settings` shows what holds, where it came from, and no secret.

| variable | kind | default | meaning |
|---|---|---|---|
"""

_IN_DATA_FOLDER = {
    "database_url": "SQLite file `spotfloor.db` in the user's data folder",
    "archive_dir": "`archive` in the user's data folder",
    "secret_key_path": "`secret.key` in the user's data folder",
}
"""Defaults that depend on the machine."""

_BOUNDS = {"gt": "> {}", "ge": "≥ {}", "lt": "< {}", "le": "≤ {}"}


def page() -> str:
    """Return the page: one row for each setting, in the order of the code.

    Raises:
        KeyError: a setting has a default that is made at run time and has no words here.
    """
    rows = [_row(name, field) for name, field in Settings.model_fields.items()]
    return _HEAD + "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(name: str, field: FieldInfo) -> tuple[str, str, str, str]:
    meaning = (field.description or "").replace("|", "\\|")
    return f"`{PREFIX}{name.upper()}`", _kind(field), _default(name, field), meaning


def _kind(field: FieldInfo) -> str:
    words = _name(field.annotation)
    bounds = [
        text.format(format(getattr(rule, key), ","))
        for rule in field.metadata
        for key, text in _BOUNDS.items()
        if hasattr(rule, key)
    ]
    return f"{words} {', '.join(bounds)}".strip()


def _name(kind: Any) -> str:
    if get_origin(kind) in {Union, types.UnionType}:
        (kind,) = (one for one in get_args(kind) if one is not type(None))
    if get_origin(kind) is Literal:
        return "one of " + ", ".join(f"`{word}`" for word in get_args(kind))
    if get_origin(kind) is tuple:
        return "list"
    return {
        SecretStr: "secret", bool: "`0` or `1`", int: "whole number", float: "number",
        str: "text", Path: "path",
    }[kind]  # fmt: skip


def _default(name: str, field: FieldInfo) -> str:
    if field.default_factory is not None:
        return _IN_DATA_FOLDER[name]
    value = field.default
    if isinstance(value, tuple):
        value = ",".join(value)
    if value is None or value == "":
        return "–"
    return f"`{int(value)}`" if isinstance(value, bool) else f"`{value}`"


def main() -> None:
    """Write the page."""
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
