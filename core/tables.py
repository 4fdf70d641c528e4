"""Rows as text: money and quantities as plain decimal strings, instants as ISO-8601 UTC."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from enum import Enum
from typing import Any

from core.clock import iso
from core.money import plain


def jsonable(value: object) -> Any:
    """Convert a value to what JSON holds; money and quantities become plain strings."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Decimal):
        return plain(value)
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [jsonable(item) for item in value]
    return value


def csv_text(columns: Sequence[str], rows: Iterable[Mapping[str, object]]) -> str:
    """Return rows as CSV with a header; what is not known is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        values = [jsonable(row.get(column)) for column in columns]
        writer.writerow(["" if value is None else value for value in values])
    return text.getvalue()
