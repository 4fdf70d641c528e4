"""The headline: what happened in one or two sentences, computed from the figures. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from notify.digest.parts import Move, Row
from notify.digest.statistics import Standing
from notify.digest.words import counted, market_name, usd, whole_percent

NAMED = 3
FLAT = Decimal("0.01")
_REASONS = {
    "snapshot": "the bundled snapshot is no live price",
    "stale": "they were not confirmed in the week",
    "suspect": "their source was in doubt",
    "sold_out": "sold out all week",
    "not_firm": "indicative prices",
    "ended": "no longer sold",
    "outlier": "far from their series",
}


def headline_of(
    week: str, rows: Sequence[Row], moves: Sequence[Move], excluded: Mapping[str, int]
) -> str:
    """Return the headline.

    Args:
        rows: the broadest first.
        moves: the surest first.
    """
    if not rows:
        return _nothing(week, excluded)
    sure = [move for move in moves if move.standing in {Standing.SIGNIFICANT, Standing.LIST_PRICE}]
    broad = [move for move in moves if move.standing == Standing.LARGE]
    named = (sure + broad)[:NAMED]
    thin = next((move for move in moves if move.standing == Standing.THIN), None)
    moved = {(move.gpu, move.market, move.tier) for move in moves}
    still = next((row for row in rows if _flat(row) and _key(row) not in moved), None)
    parts = [_moved(move) for move in named]
    if all(row.change_7d is None for row in rows):
        top = rows[0]
        return f"First week with prices: {series_name(top)} at {usd(top.median)}."
    if not named:
        parts.append("a quiet week: no broad series moved by 3 % or more")
    if still:
        parts.append(f"{series_name(still)} flat at {usd(still.median)}")
    if not named and thin:
        parts.append(f"{_moved(thin)} on thin supply ({counted(thin.offers, 'offer')})")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _flat(row: Row) -> bool:
    return row.change_7d is not None and abs(row.change_7d) < FLAT


def _key(row: Row) -> tuple[str, str, str]:
    return (row.gpu, row.market, row.tier)


def series_name(of: Row | Move) -> str:
    """A series in words, e.g. ``H100 SXM5 80GB on demand``."""
    return f"{of.gpu_name} {market_name(of.market, of.tier)}"


def _moved(move: Move) -> str:
    verb = "rose" if move.change > 0 else "fell"
    return f"{series_name(move)} {verb} {whole_percent(move.change)} to {usd(move.after)}"


def _nothing(week: str, excluded: Mapping[str, int]) -> str:
    if not excluded:
        return f"No prices were collected in {week}: nothing can be said about it."
    reasons = ", ".join(
        f"{counted(count, 'offer')}: {_REASONS.get(reason, reason)}"
        for reason, count in excluded.items()
    )
    return f"No price of {week} counts ({reasons}): nothing can be said about it."
