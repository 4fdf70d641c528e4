"""A small market that a test moves, and a rule that watches it look by look."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from notify.measures import Baseline, Quote, SourceLook
from notify.rules import Rule
from notify.state import State
from notify.watching import Seen, Watched, unchanged, watch

T0 = datetime(2026, 11, 23, tzinfo=UTC)
"""A Monday."""


def a_rule(kind: str = "price_change", **changes: Any) -> Rule:
    return Rule.of_document({"name": "r", "kind": kind, **changes})


def a_quote(offer: int, usd: str, at: datetime = T0, **changes: Any) -> Quote:
    """An H100 on the spot market at acme."""
    values: dict[str, Any] = {
        "offer": offer,
        "provider": "acme",
        "region": "us-east-1",
        "gpu": "h100-sxm",
        "gpu_count": Decimal(1),
        "vram_gib": Decimal(80),
        "market": "spot",
        "tier": "secure",
        "usd": Decimal(usd),
        "in_stock": True,
        "seen": at,
    }
    return Quote(**(values | changes))


@dataclass
class World:
    """What a rule remembers between looks."""

    rule: Rule
    first: bool = True
    states: dict[str, State] = field(default_factory=dict)
    baselines: dict[str, dict[str, Baseline]] = field(default_factory=dict)

    def see(self, at: datetime, quotes: list[Quote], **changes: Any) -> list[Watched]:
        """Evaluate once, and return the series with an event."""
        sources: Mapping[str, SourceLook] = changes.pop(
            "sources", {"acme": SourceLook("acme", 3600, at)}
        )
        seen = Seen(at, quotes, sources, changes.pop("plans", {}))
        found = watch(self.rule, seen, self.states, self.baselines, first=self.first, **changes)
        self.first = False
        for one in found:
            one = unchanged(one, self.baselines.get(one.series, {}))
            self.states[one.series] = one.state
            kept = self.baselines.setdefault(one.series, {})
            kept.update(one.baselines)
            for name in one.dropped:
                kept.pop(name, None)
        return [one for one in found if one.event is not None]

    def prices(self, looks: list[list[str] | None], hours: float = 1) -> list[int]:
        """Look at lists of prices at even distances; return the numbers of looks with an event."""
        numbers = []
        for number, prices in enumerate(looks):
            at = T0 + timedelta(hours=hours * number)
            quotes = [a_quote(n + 1, usd, at) for n, usd in enumerate(prices or [])]
            if self.see(at, quotes):
                numbers.append(number)
        return numbers
