"""The traffic among a plan's values: what a file holds, and the headroom that is computed. Pure."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping
from typing import Any

from core.errors import InputError
from optimizer.headroom import headroom_of_profile
from optimizer.plan_question import RATES
from optimizer.traffic import Question, traffic_of
from optimizer.traffic_rows import Rates, Requests, read_rows
from optimizer.workload import daily_profile

_OF_TRAFFIC = ("series", "timezone", "floor_quantile", "ceiling_quantile")


def said_once(values: Mapping[str, Any]) -> None:
    """Refuse a demand that is said twice, before a file is opened for it.

    Raises:
        InputError: the demand is given beside ``traffic`` or ``profile``.
    """
    pairs = ("floor", "ceiling", "floor_rps", "ceiling_rps")
    for way, others in (("traffic", (*pairs, "profile")), ("profile", pairs)):
        if values.get(way) is None:
            continue
        for name in others:
            if values.get(name) is not None:
                raise InputError(
                    f"--{way} already says the demand; leave out --{name.replace('_', '-')}"
                )


def with_traffic(
    values: Mapping[str, Any], text: str | None = None
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Fill in rates, tokens and headroom from ``--traffic`` or from floor and ceiling in rates.

    What the user gave outright stays.

    Args:
        values: ``traffic`` is the file's name.
        text: what the file holds; only with ``traffic``.

    Returns:
        The values, and what was read for the answer (None where the demand is in replicas).

    Raises:
        InputError: the file or an option is not usable.
    """
    question = _question(values)
    if values.get("traffic") is None:
        for name in _OF_TRAFFIC:
            if values.get(name) is not None:
                raise InputError(f"--{name.replace('_', '-')} only goes with --traffic FILE")
        return _without_file(values, question)
    said_once(values)
    name = str(values["traffic"])
    found = traffic_of(_rows(name, text or "", question, str(values.get("series") or "")), question)
    filled = {
        RATES: found.rates,
        "headroom": round(found.headroom.value, 6),
        "tokens_in": found.tokens_in,
        "tokens_out": found.tokens_out,
    }
    report = {"source": name, **found.to_json()}
    return _given_first(filled, values), _overridden(report, values)


def _without_file(
    values: Mapping[str, Any], question: Question
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Floor and ceiling in requests/s: the headroom follows from the rates alone."""
    low, high = values.get("floor_rps"), values.get("ceiling_rps")
    if low is None or high is None or values.get("profile") is not None:
        return dict(values), None
    if values.get("floor") is not None or values.get("ceiling") is not None:
        return dict(values), None  # said twice; refused where the demand is read
    rates = [rate * question.growth for rate in daily_profile(float(low), float(high))]
    if max(rates) <= 0:
        raise InputError(f"--ceiling-rps {high:g}: must be above 0; there is nothing to serve")
    spare = headroom_of_profile(rates, question.headroom_quantile, question.burstiness or 1.0)
    report = {
        "source": "floor and ceiling",
        "format": "floor,ceiling",
        "rows": 0,
        "span_hours": 0.0,
        "timezone": "UTC",
        "growth": question.growth,
        "floor": {"quantile": None, "rps": round(min(rates), 6)},
        "ceiling": {"quantile": None, "rps": round(max(rates), 6)},
        "rps_by_hour": [round(rate, 6) for rate in rates],
        "tokens_in": None,
        "tokens_out": None,
        "headroom": spare.to_json(),
        "notes": ["A raised cosine with its trough at 04:00 is drawn between floor and ceiling."],
    }
    filled = {RATES: tuple(rates), "headroom": round(spare.value, 6)}
    kept = {key: value for key, value in values.items() if key not in {"floor_rps", "ceiling_rps"}}
    return _given_first(filled, kept), _overridden(report, values)


def _given_first(filled: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    given = {key: value for key, value in values.items() if value is not None}
    return {**{key: value for key, value in filled.items() if value is not None}, **given}


def _overridden(report: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Mark a headroom that the user gave; the computed one stays to be seen."""
    if values.get("headroom") is None:
        return {**report, "headroom_used": report["headroom"]["value"]}
    return {**report, "headroom_used": float(values["headroom"])}


def _question(values: Mapping[str, Any]) -> Question:
    numbers = {
        name: float(values[name])
        for name in (
            "floor_quantile", "ceiling_quantile", "headroom_quantile", "growth", "burstiness",
        )
        if values.get(name) is not None
    }  # fmt: skip
    return Question(timezone=str(values.get("timezone") or ""), **numbers)


def _rows(name: str, text: str, question: Question, series: str) -> Requests | Rates:
    head = text.partition("\n")[0]
    if not head.strip():
        raise InputError(f"--traffic {name}: empty; give a CSV file with a header")
    mark = max(",;\t", key=head.count)

    def lines() -> Iterator[tuple[int, dict[str, str]]]:
        reader = csv.DictReader(io.StringIO(text), delimiter=mark, restkey="")
        for row in reader:
            yield reader.line_num, row

    try:
        return read_rows(name, lines(), local=question.zone, series=series)
    except csv.Error as error:
        raise InputError(f"--traffic {name}: no CSV: {error}") from None
