"""What instances cost: up-time by the provider's rules.

An instance is billed from its start to its end, whole ticks, at the price of each tick. The rules
then change single lives: the first part of a cold start may be free, an instance that is given back
is billed while it drains, there may be a least billed time, and spot that is taken away early may
be refunded in full.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from optimizer.replay.fleet import Life, Rules
from optimizer.replay.traces import TraceSet


def bill(
    traces: TraceSet, lives: Sequence[Life], rules: Rules
) -> tuple[NDArray[np.float64], float]:
    """Return USD per tick, and the billed instance-hours of all pools together."""
    ticks, zones = traces.capacity.shape
    prices = np.full((ticks, zones + 1), rules.on_demand_usd)
    prices[:, :zones] = rules.spot_usd if traces.spot_usd is None else traces.spot_usd
    # Instances change by +n at a start and -n at an end: running counts are the sum so far.
    change = np.zeros((ticks + 1, zones + 1))
    usd = np.zeros(ticks)
    hours = 0.0
    for life in lives:
        if not life.instances or life.started == life.ended:
            continue
        up_s = (life.ended - life.started) * traces.gap_s
        if life.taken and up_s <= rules.refund_s:
            continue
        change[life.started, life.pool] += life.instances
        change[life.ended, life.pool] -= life.instances
        billed_s = billed_seconds(life, rules, traces.gap_s, ticks)
        hours += billed_s / 3600 * life.instances
        if billed_s != up_s:
            price = prices[life.started, life.pool]
            usd[life.started] += (billed_s - up_s) / 3600 * price * life.instances
    running = np.cumsum(change[:-1], axis=0)
    usd += (running * prices).sum(axis=1) * (traces.gap_s / 3600)
    return usd, hours


def billed_seconds(life: Life, rules: Rules, gap_s: float, ticks: int) -> float:
    """Seconds that one of the instances is billed for; ``ticks`` is the length of the replay."""
    up_s = (life.ended - life.started) * gap_s
    if life.taken and up_s <= rules.refund_s:
        return 0.0
    loading_s = (min(life.ready, life.ended) - life.started) * gap_s
    billed_s = up_s - min(rules.unbilled_s, loading_s)
    if life.ended == ticks:
        return billed_s  # it runs on
    if not life.taken:
        billed_s += rules.drain_s
    return max(billed_s, rules.minimum_s)
