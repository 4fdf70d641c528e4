"""Tools that parsers share: safe JSON, block-page detection, and the log of rows.

A parser is total: whatever the bytes, it returns ``Parsed``. ``RowLog`` is how it keeps that
promise: each row is handled inside ``with log.row(row):``, which turns a bad value into a
rejection with the row's excerpt instead of an exception.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal, InvalidOperation
from typing import Any

from core.gpus import UnknownGpu
from core.market import (
    EXCERPT_LIMIT,
    EgressTariff,
    Failure,
    Offer,
    Parsed,
    Rejected,
    SpotObservation,
)
from core.money import decimal_of
from pricing.source import Payload


class Reject(Exception):
    """Raised inside ``RowLog.row`` to reject the row at hand, with a reason."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(detail or reason)
        self.reason = reason
        self.detail = detail


class RowLog:
    """Collects what one payload gives. ``parsed`` is the result."""

    def __init__(self, payload: Payload) -> None:
        self.payload = payload
        self.parsed = Parsed()
        self._counted: dict[str, tuple[str, str, int]] = {}

    def offer(self, offer: Offer) -> None:
        """Accept an offer."""
        self.parsed.offers.append(offer)

    def egress(self, tariff: EgressTariff) -> None:
        """Accept a traffic tariff."""
        self.parsed.egress.append(tariff)

    def observation(self, observation: SpotObservation) -> None:
        """Accept a statement about spot reliability."""
        self.parsed.observations.append(observation)

    def reject(self, reason: str, row: object, detail: str = "") -> None:
        """Reject one row, keeping its excerpt."""
        self.parsed.rejected.append(Rejected(reason, detail, excerpt(row), self.payload.name))

    def tally(self, reason: str, row: object, detail: str = "") -> None:
        """Reject one of very many like rows (CPU machines): counted, first excerpt kept."""
        first = self._counted.get(reason)
        if first is None:
            self._counted[reason] = (detail, excerpt(row), 1)
        else:
            self._counted[reason] = (first[0], first[1], first[2] + 1)

    def fail(self, reason: str, detail: str) -> None:
        """Say that the payload as a whole is no price list."""
        self.parsed.failures.append(Failure(reason, detail, self.payload.name))

    @contextmanager
    def row(self, row: object) -> Iterator[None]:
        """Handle one row; what goes wrong inside becomes a rejection of this row."""
        try:
            yield
        except Reject as rejected:
            self.reject(rejected.reason, row, rejected.detail)
        except UnknownGpu as unknown:
            self.reject(unknown.reason, row, str(unknown))
        except KeyError as missing:
            self.reject("missing_field", row, f"missing field {missing.args[0]!r}")
        except (ValueError, TypeError, AttributeError, IndexError, ArithmeticError) as bad:
            self.reject(_reason_of(bad), row, f"{bad}")

    def done(self) -> Parsed:
        """Close the log and return the result."""
        for reason, (detail, text, count) in self._counted.items():
            self.parsed.rejected.append(Rejected(reason, detail, text, self.payload.name, count))
        self._counted.clear()
        return self.parsed


def _reason_of(error: Exception) -> str:
    text = str(error)
    if text.startswith("implausible price"):
        return "implausible_price"
    if text.startswith("zero price"):
        return "zero_price"
    if isinstance(error, InvalidOperation) or text.startswith(("no number", "not a number")):
        return "bad_number"
    return "bad_value"


def excerpt(row: object) -> str:
    """Return a row as short printable text."""
    if isinstance(row, str):
        return row[: EXCERPT_LIMIT + 1]
    if isinstance(row, bytes):
        return row[: EXCERPT_LIMIT + 1].decode("utf-8", "replace")
    try:
        text = json.dumps(row, default=str, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        text = repr(row)
    return text[: EXCERPT_LIMIT + 1]


_BLOCK_MARKS = (
    "just a moment...",
    "cf-challenge",
    "challenge-platform",
    "access denied",
    "captcha",
    "attention required",
    "reference&#32;&#35;",
)
_MAINTENANCE_MARKS = ("maintenance", "be right back", "temporarily unavailable")


def page_problem(body: bytes) -> tuple[str, str] | None:
    """Say why an HTML body is no price page (``block_page``, ``maintenance``, ``empty_body``).

    Returns:
        (reason, detail), or None when nothing speaks against it.
    """
    if not body.strip():
        return "empty_body", "the body is empty"
    head = body[:20_000].decode("utf-8", "replace").lower()
    title = re.search(r"<title[^>]*>(.*?)</title>", head, re.DOTALL)
    text = title.group(1).strip() if title else ""
    if mark := next((m for m in _BLOCK_MARKS if m in head), None):
        return "block_page", f"a block page (found {mark!r})"
    if any(m in text or f"<h1>{m}" in head for m in _MAINTENANCE_MARKS):
        return "maintenance", f"a maintenance page ({text!r})"
    return None


def load_json(log: RowLog) -> Any | None:
    """Read the payload as JSON with Decimal numbers; on trouble log a failure, return None."""
    body = log.payload.read()
    if not body.strip():
        log.fail("empty_body", "the body is empty")
        return None
    head = body.lstrip()[:200].lower()
    if head.startswith((b"<!doctype", b"<html", b"<head")):
        problem = page_problem(body) or ("html_instead_of_json", "an HTML page, not JSON")
        log.fail(*problem)
        return None
    try:
        document = json.loads(body, parse_float=Decimal, parse_constant=_no_constant)
        if document is None:
            log.fail("not_a_price_list", "the body is null")
        return document
    except UnicodeDecodeError as error:
        log.fail("wrong_charset", f"not UTF-8: {error}")
    except RecursionError:
        log.fail("bad_json", "nested too deeply")
    except ArithmeticError as error:
        log.fail("bad_json", f"a number beyond all bounds: {type(error).__name__}")
    except ValueError as error:
        at_end = getattr(error, "pos", 0) >= len(body.decode("utf-8", "replace").rstrip()) - 1
        cut = at_end or "Unterminated string" in str(error) or "Expecting" in str(error)
        reason = "truncated" if cut and not body.rstrip().endswith((b"}", b"]")) else "bad_json"
        log.fail(reason, f"not complete JSON: {error}")
    return None


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def as_object(value: object, what: str) -> dict[str, Any]:
    """Return ``value`` as a JSON object.

    Raises:
        Reject: it is something else.
    """
    if not isinstance(value, dict):
        raise Reject("bad_shape", f"{what} is {type(value).__name__}, expected an object")
    return value


def as_list(value: object, what: str) -> list[Any]:
    """Return ``value`` as a JSON array.

    Raises:
        Reject: it is something else.
    """
    if not isinstance(value, list):
        raise Reject("bad_shape", f"{what} is {type(value).__name__}, expected a list")
    return value


def as_text(value: object, what: str) -> str:
    """Return ``value`` as a text with something in it, spaces around it cut off.

    Raises:
        Reject: it is something else.
    """
    if not isinstance(value, str) or not value.strip():
        found = "empty" if value == "" else type(value).__name__
        raise Reject("bad_shape", f"{what} is {found}, expected a text")
    return value.strip()


def as_whole(value: object, what: str, *, most: int, least: int = 1) -> int:
    """Return a machine number (or its text) as a whole number of ``least`` to ``most``.

    Raises:
        Reject, ValueError: it is something else.
    """
    number = decimal_of(value)
    if not least <= number <= most or number % 1:
        raise Reject("bad_value", f"{what} is {number:.20g}, expected {least} to {most}")
    return int(number)


def load_rows(log: RowLog, key: str) -> list[Any] | dict[str, Any] | None:
    """Read the list or object of rows that stands under ``key`` of the payload's JSON object.

    On anything else (an error answer, an empty list, no JSON) log a failure and return None.
    """
    body = load_json(log)
    if body is None:
        return None
    rows = body.get(key) if isinstance(body, dict) else None
    if isinstance(rows, list | dict):
        if rows:
            return rows
        log.fail("empty_list", f"{key} is empty; this is no empty price list")
        return None
    error = _error_text(body)
    if error:
        log.fail("error_answer", error)
    else:
        log.fail("not_a_price_list", f"no list under {key!r}")
    return None


def _error_text(body: object) -> str:
    """Return what an error answer says of itself, or ""."""
    if not isinstance(body, dict):
        return ""
    for key in ("error", "message", "detail"):
        said = body.get(key)
        if isinstance(said, dict):
            said = said.get("message") or said.get("code")
        if isinstance(said, str) and said:
            return said
    return ""
