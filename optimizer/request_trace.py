"""Request traces: what traffic looks like, from rows that somebody else has parsed.

Formats are known by their columns: Azure's (``TIMESTAMP``, ``ContextTokens``,
``GeneratedTokens``) and Mooncake's (``timestamp`` or ``timestamp_ms``, ``input_length``,
``output_length``, and ``hash_ids`` of 512-token blocks). Only ``hash_ids`` tell how prompts
overlap; a count of blocks (``n_prefix_blocks``) is the prompt's length again. Broken rows are
reported, not guessed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from core.errors import InputError

MOONCAKE_BLOCK = 512
MOST_TOKENS = 10_000_000
MOST_BROKEN_SHARE = 0.5
"""A file of which half is broken is another format, not a trace with errors."""
SHOWN = 5


@dataclass(frozen=True, slots=True)
class Request:
    """One request.

    Attributes:
        at_s: arrival, seconds after the trace's first row.
        blocks: ids of the prompt's blocks, first to last; None where the trace has none.
    """

    at_s: float
    input_tokens: int
    output_tokens: int
    blocks: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class BrokenRow:
    """A row that was left out: its number (1 = first row after the header) and why."""

    row: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """Requests in order of arrival, and the rows that could not be read."""

    requests: tuple[Request, ...]
    broken: tuple[BrokenRow, ...]

    @property
    def seconds(self) -> float:
        """From the first to the last arrival."""
        return self.requests[-1].at_s - self.requests[0].at_s

    @property
    def requests_per_s(self) -> float:
        """Mean arrival rate; infinite when all arrive at once."""
        return (len(self.requests) - 1) / self.seconds if self.seconds else math.inf

    @property
    def mean_input(self) -> float:
        """Mean prompt tokens."""
        return sum(r.input_tokens for r in self.requests) / len(self.requests)

    @property
    def mean_output(self) -> float:
        """Mean generated tokens."""
        return sum(r.output_tokens for r in self.requests) / len(self.requests)

    @property
    def input_cv(self) -> float:
        """Coefficient of variation of prompt lengths."""
        mean = self.mean_input
        spread = sum((r.input_tokens - mean) ** 2 for r in self.requests) / len(self.requests)
        return math.sqrt(spread) / mean

    def input_quantile(self, share: float) -> int:
        """Prompt length that ``share`` of the requests do not exceed."""
        ordered = sorted(r.input_tokens for r in self.requests)
        return ordered[max(0, math.ceil(share * len(ordered)) - 1)]

    @property
    def overlap(self) -> float | None:
        """Share of prompt tokens that a cache without limit would find; None when not in the data.

        A block counts when it and all before it were seen, in this order, in an earlier request.
        """
        if any(request.blocks is None for request in self.requests):
            return None
        seen: set[tuple[int, int]] = set()
        found = total = 0
        for request in self.requests:
            blocks = request.blocks or ()
            reused, known, chain = 0, True, 0
            for block in blocks:
                chain = hash((chain, block))
                known = known and (chain, block) in seen
                reused += known
                seen.add((chain, block))
            found += min(reused * MOONCAKE_BLOCK, request.input_tokens - 1)
            total += request.input_tokens
        return found / total

    @property
    def note(self) -> str:
        """One line about broken rows; empty without any."""
        if not self.broken:
            return ""
        shown = "; ".join(f"row {b.row}: {b.reason}" for b in self.broken[:SHOWN])
        more = "" if len(self.broken) <= SHOWN else f"; and {len(self.broken) - SHOWN} more"
        total = len(self.broken) + len(self.requests)
        return f"{len(self.broken)} of {total} rows left out: {shown}{more}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Concurrency:
    """Requests in flight over time: mean, median, 95th percentile and largest."""

    mean: float
    p50: int
    p95: int
    peak: int


def read_trace(rows: Iterable[Mapping[str, object]]) -> Trace:
    """Read a request trace.

    Args:
        rows: mappings by column name, as ``csv.DictReader`` or JSON lines give them.

    Raises:
        InputError: unknown columns, no usable row, or more than half of the rows broken.
    """
    requests: list[Request] = []
    broken: list[BrokenRow] = []
    for number, row in enumerate(rows, start=1):
        try:
            requests.append(_request(row))
        except ValueError as exc:
            broken.append(BrokenRow(number, str(exc)))
    total = len(requests) + len(broken)
    if not requests:
        why = f"; row {broken[0].row}: {broken[0].reason}" if broken else ""
        raise InputError(f"trace: none of its {total} rows can be read{why}")
    if len(broken) > MOST_BROKEN_SHARE * total:
        raise InputError(
            f"trace: {len(broken)} of {total} rows are broken, row {broken[0].row}:"
            f" {broken[0].reason}; mend the file"
        )
    requests.sort(key=lambda request: request.at_s)
    start = requests[0].at_s
    return Trace(
        requests=tuple(
            Request(r.at_s - start, r.input_tokens, r.output_tokens, r.blocks) for r in requests
        ),
        broken=tuple(broken),
    )


def concurrency(trace: Trace, *, ttft_s: float, tpot_s: float) -> Concurrency:
    """Requests in flight when each takes ``ttft_s + output x tpot_s`` seconds, queueing aside.

    Raises:
        InputError: a time that is not positive.
    """
    for field, value in (("ttft_s", ttft_s), ("tpot_s", tpot_s)):
        if not 0 < value < math.inf:
            raise InputError(f"{field} {value}: must be above 0 seconds")
    changes = sorted(
        change
        for r in trace.requests
        for change in ((r.at_s, 1), (r.at_s + ttft_s + r.output_tokens * tpot_s, -1))
    )
    held: dict[int, float] = {}
    level, before = 0, changes[0][0]
    for at, change in changes:
        held[level] = held.get(level, 0.0) + at - before
        level, before = level + change, at
    total = sum(held.values())
    return Concurrency(
        mean=sum(n * seconds for n, seconds in held.items()) / total,
        p50=_level(held, 0.50 * total),
        p95=_level(held, 0.95 * total),
        peak=max(held),
    )


def _level(held: Mapping[int, float], share: float) -> int:
    passed = 0.0
    for level in sorted(held):
        passed += held[level]
        if passed >= share:
            return level
    return max(held)


def _request(row: Mapping[str, object]) -> Request:
    if "ContextTokens" in row:
        return Request(
            _instant(row.get("TIMESTAMP")),
            _tokens(row, "ContextTokens", least=1),
            _tokens(row, "GeneratedTokens", least=0),
        )
    if "input_length" in row:
        key = "timestamp_ms" if "timestamp_ms" in row else "timestamp"
        return Request(
            _number(row.get(key), key) / 1000,
            _tokens(row, "input_length", least=1),
            _tokens(row, "output_length", least=0),
            _blocks(row.get("hash_ids")),
        )
    raise InputError(
        "trace: columns are not known; it needs TIMESTAMP, ContextTokens, GeneratedTokens or"
        " timestamp, input_length, output_length"
    )


def _instant(value: object) -> float:
    text = str(value or "").strip()
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"TIMESTAMP {text!r} is not a time") from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return moment.timestamp()


def _number(value: object, field: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise ValueError(f"{field} {value!r} is not a number")
    try:
        number = float(value)
    except ValueError:
        raise ValueError(f"{field} {value!r} is not a number") from None
    if not math.isfinite(number):
        raise ValueError(f"{field} {value!r} is not finite")
    return number


def _tokens(row: Mapping[str, object], field: str, *, least: int) -> int:
    number = _number(row.get(field), field)
    if number != int(number) or not least <= number <= MOST_TOKENS:
        raise ValueError(f"{field} {row.get(field)!r} is not a count of at least {least}")
    return int(number)


def _blocks(value: object) -> tuple[int, ...] | None:
    if value is None or value == "":
        return None
    if isinstance(value, str):
        text = value
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            raise ValueError(f"hash_ids {text[:30]!r} is not a list") from None
    if not isinstance(value, Sequence) or not all(
        isinstance(block, int) and not isinstance(block, bool) for block in value
    ):
        raise ValueError("hash_ids is not a list of whole numbers")
    return tuple(value)
