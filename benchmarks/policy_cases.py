"""The replays of the policy benchmark: traces, loads, and who is cheaper at no lower service."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from optimizer.replay.compare import EXTRAS, Maker, Row, compare
from optimizer.replay.demand import Load, constant, daily, load_of, read_rates, wanted_replicas
from optimizer.replay.fleet import Rules
from optimizer.replay.ours import LADDER, Seasoned
from optimizer.replay.policies import SpotHedge
from optimizer.replay.traces import TraceSet

BIG = "availability/1-node/aws-02-15-2023/V100x1"
OTHERS = (
    "availability/1-node/aws-10-26-2022/V100x1",
    "preemption/1-node/aws-04-22-2023/V100x1",
    "availability/16-node/aws-08-27-2023/V100x1",
    "preemption/4-node/aws-08-03-2023/V100x1",
    "GCP1/A100-40GBx8",
)
MARGIN = 0.75
"""Of SpotHedge's lost work, what a setting may lose where it is chosen: other weeks differ."""
AZURE = "AzureLLMInferenceTrace_conv_2023.csv.gz"


@dataclass(frozen=True)
class Case:
    """One replay: where, what load, and its rows by policy name."""

    traces: str
    load: str
    rows: dict[str, Row]


def loads(traces: TraceSet, data: Path, *, large: bool) -> Iterator[tuple[str, Load]]:
    yield "2", constant(2, traces.ticks)
    yield "4", constant(4, traces.ticks)
    yield "4-12", daily(4, 12, traces.ticks, traces.gap_s)
    if large:
        yield "8-40", daily(8, 40, traces.ticks, traces.gap_s)
        rates = read_rates((data / AZURE).read_bytes(), "Azure conv")
        yield "Azure", load_of(rates, mean=8, ticks=traces.ticks, gap_s=traces.gap_s)


def makers() -> list[Maker]:
    return [
        *(partial(SpotHedge, extra) for extra in EXTRAS),
        *(partial(Seasoned, dials) for dials in LADDER),
    ]


def rules_of(traces: TraceSet) -> Rules:
    """Cold start 183 s; in the big set that is its tick, as in the reference run."""
    return Rules(spot_usd=0.3, on_demand_usd=1.0, cold_s=min(183.0, traces.gap_s))


def judge(traces: TraceSet, words: str, data: Path, *, large: bool) -> list[Case]:
    cases = []
    for name, load in loads(traces, data, large=large):
        wanted = wanted_replicas(load, traces.gap_s) if name == "Azure" else None
        rows = compare(traces, load, rules_of(traces), makers(), wanted=wanted)
        cases.append(Case(words, name, {row.policy: row for row in rows}))
    return cases


def ours(case: Case) -> list[Row]:
    return [row for name, row in case.rows.items() if name.startswith("ours")]


def best(case: Case, least_served: float) -> Row:
    """The cheapest setting of ours that serves as much; the one that serves most if none does."""
    fitting = [row for row in ours(case) if row.served_share >= least_served]
    if fitting:
        return min(fitting, key=lambda row: row.excess_share)
    return max(ours(case), key=lambda row: row.served_share)


def verdict(mine: Row, theirs: Row) -> str:
    if mine.served_share < theirs.served_share:
        return "serves less"
    ratio = mine.excess_share / theirs.excess_share if theirs.excess_share > 0 else float("inf")
    return "half or less" if ratio <= 0.5 else ("less" if ratio < 1 else "no better")


def chosen(case: Case, fitted: dict[str, Case], extra: int) -> Row:
    """The row of the setting that the fitted part would choose for this load and e."""
    there = fitted[case.load]
    lost = 1 - there.rows[f"SpotHedge e={extra}"].served_share
    return case.rows[best(there, 1 - MARGIN * lost).policy]


def judged(job: tuple[TraceSet, str, bool, Path]) -> list[Case]:
    traces, words, large, data = job
    return judge(traces, words, data, large=large)


def at_equal_service(case: Case, theirs: Row) -> float | None:
    """Our cost above the bound over theirs, at their served share; None where ours serves less.

    Between two settings lies their mix: one in some hours, the other in the rest, so that lost work
    and cost are weighted means.
    """
    lost = 1 - theirs.served_share
    points = [(1 - row.served_share, row.excess_share) for row in ours(case)]
    found = [excess for gone, excess in points if gone <= lost]
    for gone, excess in points:
        for more, less in points:
            if gone < lost < more:
                weight = (lost - gone) / (more - gone)
                found.append(excess + weight * (less - excess))
    if not found or theirs.excess_share <= 0:
        return None
    return max(min(found), 0.0) / theirs.excess_share
