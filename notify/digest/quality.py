"""What the figures of a week rest on: looks at providers, exclusions, coverage. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal

from db.digests import RunFacts
from db.records import RunState
from notify.digest.parts import Outlier, Quality, SourceWeek
from notify.digest.read import WeekData
from notify.digest.series import SeriesWeek
from notify.digest.words import clean, six
from pricing.series import longest_hole

MOST_OUTLIERS = 20


def quality_of(data: WeekData, series: Sequence[SeriesWeek]) -> Quality:
    """Return the data quality of a week."""
    counting = Counter(quote.provider for item in series for quote in item.quotes)
    runs: dict[str, list[RunFacts]] = defaultdict(list)
    for run in data.runs:
        if run.state != RunState.SKIPPED:
            runs[run.provider].append(run)
    names = sorted(data.touched | runs.keys() | counting.keys())
    outliers: list[Outlier] = [outlier for item in series for outlier in item.outliers]
    excluded = Counter(data.left_out)
    if outliers:
        excluded["outlier"] = len(outliers)
    known, listed = data.known
    return Quality(
        sources=tuple(_source(name, runs[name], counting[name], data) for name in names),
        told=len(counting),
        offers=sum(counting.values()),
        known_share=six(Decimal(known) / listed) if listed else None,
        excluded=dict(sorted(excluded.items())),
        outliers=tuple(outliers[:MOST_OUTLIERS]),
    )


def _source(name: str, runs: Sequence[RunFacts], offers: int, data: WeekData) -> SourceWeek:
    good = [run.at for run in runs if run.wrote]
    facts = data.facts.get(name)
    allowed = longest_hole(timedelta(seconds=facts.every_seconds if facts else 0))
    last = max(good, default=None)
    return SourceWeek(
        provider=clean(name, 64),
        good=len(good),
        suspect=sum(run.state == RunState.SUSPECT for run in runs),
        failed=sum(run.state == RunState.FAILED for run in runs),
        last_good=last,
        run_ids=(runs[0].id, runs[-1].id) if runs else None,
        stale=last is None or data.until - last > allowed,
        offers=offers,
    )
