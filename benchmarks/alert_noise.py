"""How noisy the default price rules are on real price histories, and whether they miss anything.

    python -m benchmarks.alert_noise [--folder FOLDER]

Every observation time of a source is one look at all of it. A series is what the rule calls one:
a provider's card and market, or a card and market over all providers. A month of a series is
**quiet** when its median ends within a tenth of where it began. Beside the default rules stands
a plain one: the median differs by 10 % from that of a week ago, told at most once a day.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from pathlib import Path

from core.clock import parse_instant
from notify.measures import Baseline, Quote, SourceLook, statistic
from notify.rules import Kind, Rule, default_rules
from notify.state import Change, State
from notify.watching import Seen, Watched, unchanged, watch

FOLDER = Path(os.environ.get("TEST_SHARED", "../shared")) / "data"
WEEK = timedelta(days=7)
QUIET = Decimal("0.10")

GCP = "Cyclenerd/google-cloud-pricing-cost-calculator"
DAILY = "adriannutiu/gpu-rental-prices"
BY_HAND = "the-full-stack/website"

Look = tuple[datetime, list[Quote]]
SeriesMonth = tuple[str, str]


@dataclass
class Replay:
    """What a rule said over a history.

    Attributes:
        firing, ended: (series, instant) of what was told.
        looks: number of looks.
        medians: (instant, median) of each series.
    """

    firing: list[tuple[str, datetime]] = field(default_factory=list)
    ended: list[tuple[str, datetime]] = field(default_factory=list)
    looks: int = 0
    medians: dict[str, list[tuple[datetime, Decimal]]] = field(
        default_factory=lambda: defaultdict(list)
    )


def replay(rule: Rule, history: Iterable[Look]) -> Replay:
    """Let a rule see a history look by look."""
    states: dict[str, State] = {}
    kept: dict[str, dict[str, Baseline]] = defaultdict(dict)
    result = Replay()
    for at, quotes in history:
        good = {quote.provider: SourceLook(quote.provider, 3600, at) for quote in quotes}
        for found in watch(rule, Seen(at, quotes, good), states, kept, first=not result.looks):
            _remember(found, states, kept, result, at)
        result.looks += 1
    return result


def _remember(
    found: Watched,
    states: dict[str, State],
    kept: dict[str, dict[str, Baseline]],
    result: Replay,
    at: datetime,
) -> None:
    series = found.series
    states[series] = found.state
    kept[series] |= unchanged(found, kept[series]).baselines
    for name in found.dropped:
        kept[series].pop(name, None)
    if prices := found.measured.prices:
        result.medians[series].append((at, statistic("median", prices.values())))
    if found.event is not None and found.event.change is Change.FIRING:
        result.firing.append((series, at))
    elif found.event is not None and found.event.change is Change.RESOLVED:
        result.ended.append((series, at))


def months(medians: Mapping[str, list[tuple[datetime, Decimal]]]) -> dict[SeriesMonth, bool]:
    """Return each month of each series with at least two looks, and whether it was quiet."""
    found = {}
    for series, points in medians.items():
        by_month: dict[str, list[Decimal]] = defaultdict(list)
        for at, value in points:
            by_month[f"{at:%Y-%m}"].append(value)
        for month, values in by_month.items():
            if len(values) >= 2 and values[0] > 0:
                found[series, month] = abs(values[-1] / values[0] - 1) < QUIET
    return found


def plain_rule(medians: Mapping[str, list[tuple[datetime, Decimal]]]) -> list[tuple[str, datetime]]:
    """Return what the plain rule would say: 10 % from a week ago, once a day."""
    told = []
    for series, points in medians.items():
        begin, last = 0, ""
        for at, value in points:
            while begin + 1 < len(points) and points[begin + 1][0] <= at - WEEK:
                begin += 1
            before = points[begin][1]
            day = f"{at:%Y-%m-%d}"
            if day != last and before > 0 and abs(value / before - 1) >= QUIET:
                told.append((series, at))
                last = day
    return told


@dataclass(frozen=True)
class Noise:
    """Alerts by month of a series: over quiet ones and all, the mean and the worst.

    Attributes:
        messages: looks with any alert; an endpoint gets one message for each.
        weeks: of all series together.
    """

    quiet_months: int
    all_months: int
    quiet_alerts: int
    all_alerts: int
    worst_quiet: int
    messages: int
    weeks: Decimal

    @property
    def per_quiet_month(self) -> float:
        return self.quiet_alerts / max(1, self.quiet_months)

    @property
    def per_month(self) -> float:
        return self.all_alerts / max(1, self.all_months)

    @property
    def per_week(self) -> float:
        return self.all_alerts / max(1.0, float(self.weeks))


def noise(told: Iterable[tuple[str, datetime]], result: Replay) -> Noise:
    """Count alerts by month of a series."""
    known = months(result.medians)
    told = [(series, at) for series, at in told if (series, f"{at:%Y-%m}") in known]
    counts = Counter((series, f"{at:%Y-%m}") for series, at in told)
    quiet = [key for key, is_quiet in known.items() if is_quiet]
    spans = (points[-1][0] - points[0][0] for points in result.medians.values())
    return Noise(
        quiet_months=len(quiet),
        all_months=len(known),
        quiet_alerts=sum(counts[key] for key in quiet),
        all_alerts=len(told),
        worst_quiet=max((counts[key] for key in quiet), default=0),
        messages=len({at for _, at in told}),
        weeks=Decimal(sum(spans, timedelta()) // timedelta(hours=1)) / 168,
    )


# --- the histories -----------------------------------------------------------------------------


def price_history(
    folder: Path, source: str, keep: Callable[[Mapping[str, str]], bool]
) -> Iterator[Look]:
    """Read one source of the price history."""
    rows = (
        row
        for row in _rows(folder / "price_history.csv.gz")
        if row["source"].startswith(source) and keep(row)
    )
    return _looks(rows, _priced)


def marketplace(folder: Path) -> Iterator[Look]:
    """Read the marketplace: the cheapest offer of each provider, card and socket."""
    return _looks(_rows(folder / "marketplace_primeintellect_2025.csv.gz"), _asked)


def probes(folder: Path) -> Iterator[Look]:
    """Read DigitalOcean's prices by region, where they were on sale."""
    rows = _rows(folder / "do_gpu_availability_2026.csv.gz")
    return _looks((row for row in rows if row["usd_per_hour"]), _probed)


def _priced(row: Mapping[str, str]) -> tuple[str, ...]:
    count = Decimal(row["gpu_count"])
    usd = Decimal(row["usd_per_hour"]) / count
    return (
        row["observed_at"], row["provider"], row["region"], row["instance_type"], row["gpu"],
        row["gpu_count"], row["purchase_option"], str(usd),
    )  # fmt: skip


def _asked(row: Mapping[str, str]) -> tuple[str, ...]:
    return (
        row["observed_at"], row["provider"], "any", row["socket"],
        f"{row['gpu']}-{row['socket']}", "1", "on_demand", row["usd_per_gpu_hour_min"],
    )  # fmt: skip


def _probed(row: Mapping[str, str]) -> tuple[str, ...]:
    return (
        row["probed_at"], "digitalocean", row["region"], row["gpu"], row["gpu"], "1", "on_demand",
        row["usd_per_hour"],
    )  # fmt: skip


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file)


def _looks(
    rows: Iterable[Mapping[str, str]], read: Callable[[Mapping[str, str]], tuple[str, ...]]
) -> Iterator[Look]:
    numbers: dict[tuple[str, ...], int] = {}
    by_time: dict[str, dict[int, tuple[str, ...]]] = defaultdict(dict)
    for row in rows:
        text, *rest = read(row)
        number = numbers.setdefault(tuple(rest[:-1]), len(numbers) + 1)
        by_time[text][number] = tuple(rest)
    for written in sorted(by_time):
        at = parse_instant(written)
        yield at, [
            Quote(
                offer=number, provider=provider, region=region, gpu=gpu, gpu_count=Decimal(count),
                vram_gib=Decimal(0), market=market, tier="secure", usd=Decimal(usd),
                in_stock=True, seen=at,
            )
            for number, (provider, region, _, gpu, count, market, usd) in by_time[written].items()
        ]  # fmt: skip


# --- the figures -------------------------------------------------------------------------------

REGIONAL = "regional price change"
CONFIRMED = 2
"""The first look that can confirm a move: the one after that which showed it."""
NAMED: Mapping[str, Mapping[str, tuple[str, ...]]] = {
    "GCP list, 2022-2026": {
        "gcp|h100-80gb|spot|secure|us-central1": (
            "2024-07-08T06:39", "2024-10-31T03:54", "2025-03-13T03:56", "2026-01-22T04:38",
        )
    },
    "DigitalOcean probes, 2026": {
        "digitalocean|H100-SXM-80GB|on_demand|secure|nyc2": ("2026-08-01T15:20",),
        "digitalocean|H100-SXM-80GB|on_demand|secure|tor1": ("2026-08-01T15:20",),
        "digitalocean|H200-SXM-141GB|on_demand|secure|nyc2": ("2026-08-01T21:10",),
    },
}  # fmt: skip
"""The big moves that the data's README names, and the look that showed each first."""


def caught(result: Replay, series: str, begin: str) -> int | None:
    """Return at which look of the series, counted from the first with the move, it was told."""
    start = parse_instant(f"{begin}:00Z")
    looks = [at for at, _ in result.medians[series] if at >= start]
    told = next((at for name, at in result.firing if name == series and at >= start), None)
    return None if told is None else looks.index(told) + 1


def price_rules() -> list[Rule]:
    """Return the default rules that look at prices."""
    return [rule for rule in default_rules(()) if rule.kind is Kind.PRICE_CHANGE]


def histories(folder: Path) -> dict[str, Callable[[], Iterator[Look]]]:
    """Return the histories by name."""

    def part(source: str) -> Callable[[], Iterator[Look]]:
        # The hand-kept table's spot column never changes after entry (the data's own README).
        def keep(row: Mapping[str, str]) -> bool:
            return source != BY_HAND or row["purchase_option"] != "spot"

        return lambda: price_history(folder, source, keep)

    return {
        "GCP list, 2022-2026": part(GCP),
        "34 providers daily, 2026": part(DAILY),
        "20 clouds by hand, 2022-2025": part(BY_HAND),
        "marketplace, 40 min, 2025": lambda: marketplace(folder),
        "DigitalOcean probes, 2026": lambda: probes(folder),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=FOLDER)
    parser.add_argument("--events", action="store_true", help="print every alert too")
    arguments = parser.parse_args()
    print(
        f"{'history':28} {'rule':22} {'series':>6} {'looks':>5} {'alerts':>6} {'messages':>8}"
        f" {'a week':>7} {'a month':>7} {'quiet month':>11} {'worst quiet':>11}"
    )
    missed = []
    for name, history in histories(arguments.folder).items():
        for rule in price_rules():
            result = replay(rule, history())
            rows = [
                (rule.name, result.firing),
                ("  (plain 10 % a week)", plain_rule(result.medians)),
            ]
            for label, told in rows:
                found = noise(told, result)
                print(
                    f"{name:28} {label:22} {len(result.medians):6} {result.looks:5}"
                    f" {found.all_alerts:6} {found.messages:8} {found.per_week:7.3f}"
                    f" {found.per_month:7.3f} {found.per_quiet_month:11.3f} {found.worst_quiet:11}"
                )
                if label == rule.name and found.worst_quiet > 1:
                    missed.append(f"{name}: {found.worst_quiet} alerts in a quiet month")
            for series, begins in NAMED.get(name, {}).items() if rule.name == REGIONAL else ():
                for begin in begins:
                    look = caught(result, series, begin)
                    print(f"    {begin} {series}: told at look {look}")
                    if look != CONFIRMED:
                        missed.append(f"{series} {begin}: told at look {look}")
            if arguments.events:
                for series, at in result.firing:
                    print(f"    {at:%Y-%m-%d %H:%M} {series}")
    print("\n".join(missed) or "the targets hold")
    raise SystemExit(1 if missed else 0)


if __name__ == "__main__":
    main()
