"""What work is lost to: one zone falling, several at once, or no fall at all."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from benchmarks.policy_cases import BIG, OTHERS, rules_of
from optimizer.replay.demand import constant, daily
from optimizer.replay.engine import Run, simulate
from optimizer.replay.ours import Dials, Seasoned
from optimizer.replay.planned import UNLIMITED
from optimizer.replay.policies import SpotHedge
from optimizer.replay.traces import TraceSet


def losses(sets: Mapping[str, TraceSet]) -> list[str]:
    """Lines of the report: our firm settings beside SpotHedge e=4, where we mostly lose."""
    big = sets[BIG]
    half = big.ticks // 2
    cases = [
        ("45 days, second half", big.window(half, big.ticks), 2, 120.0),
        ("45 days, second half", big.window(half, big.ticks), 2, 250.0),
        ("45 days, first half", big.window(0, half), 4, 120.0),
        (OTHERS[1], sets[OTHERS[1]], 2, 120.0),
        (OTHERS[2], sets[OTHERS[2]], 4, 70.0),
        (OTHERS[3], sets[OTHERS[3]], 4, 70.0),
        (OTHERS[3], sets[OTHERS[3]], 0, 70.0),
        (OTHERS[4], sets[OTHERS[4]], 4, 70.0),
    ]
    lines = [
        "",
        "### What is lost to what",
        "",
        "Lost work in replica-ticks, and its parts: within a cold start of one zone taking"
        " instances away, of several in one tick, or of none (the start of the replay, rising load,"
        " on-demand still loading). Last: while no zone was up.",
        "",
        "| traces | load | policy | lost | one zone | several | none | no zone up |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name, traces, level, value in cases:
        traces = traces.scaled(UNLIMITED)
        load = constant(level, traces.ticks) if level else daily(4, 12, traces.ticks, traces.gap_s)
        for policy in (Seasoned(Dials(value=value)), SpotHedge(4)):
            run = simulate(policy, traces, load, rules_of(traces))
            one, several, none, dry = parts(run, traces)
            lines.append(
                f"| {name} | {level or '4-12'} | {run.policy} | {run.lost.sum():.0f} | {one:.0%} |"
                f" {several:.0%} | {none:.0%} | {dry:.0%} |"
            )
    return lines


def parts(run: Run, traces: TraceSet) -> tuple[float, float, float, float]:
    """Shares of lost work near one fall, near several at once, near none; and with no zone up."""
    before = np.vstack([np.zeros((1, run.spot.shape[1]), np.int64), run.spot[:-1]])
    falls = (before > traces.capacity).sum(axis=1)
    cold = max(1, rules_of(traces).cold_ticks(traces.gap_s))

    def after(marked: NDArray[np.bool_]) -> NDArray[np.bool_]:
        near: NDArray[np.bool_] = np.convolve(marked, np.ones(cold))[: len(marked)] > 0
        return near

    several = after(falls > 1)
    one = after(falls == 1) & ~several
    lost, total = run.lost, max(float(run.lost.sum()), 1e-9)
    shares = [float(lost[near].sum()) / total for near in (one, several)]
    dry = float(lost[traces.capacity.max(axis=1) == 0].sum()) / total
    return shares[0], shares[1], 1 - sum(shares), dry
