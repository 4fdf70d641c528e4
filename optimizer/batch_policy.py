"""A batch job with a deadline on one gang of machines: spot, and the latest moment to leave it.

Policy: the safety net of Can't Be Late (Wu et al., NSDI 2024): run on spot, wait while there is
none, and go over to on-demand for good when the time left is only just enough. Time is lost in
droughts and reloads only; while spot serves, time left and work left shrink together. So the state
is the work left ``w`` and the slack ``s``: what may still be lost before on-demand must start.

    slack = time left - work left - reload on demand - work between two checkpoints

Lives are exponential with hazard λ per hour up, droughts exponential with mean D, R hours reload.
Each loss repeats half a checkpoint interval on average (the whole interval is held in reserve).
With U the expected cost while serving, W while waiting, p and q the hourly prices on spot and on
demand, ρ = R + half an interval:

    dU/dw = p + λ (W - U)                                   serving
    dW/ds = (launch(w, s) - W) / D,  W <= q (R' + w)        waiting, or leaving for on-demand
    launch(w, s) = p (1 - e^-λρ)/λ + e^-λρ U(w, s - ρ) + (1 - e^-λρ) W(w, s - ρ)

The least-cost rule of leaving is found with it (optimal stopping), so that more slack is never
dearer. Slack is rounded down, and a start that is lost takes a whole reload of it: both are on the
safe side.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.signal import lfilter

Array = NDArray[np.float64]

WORK_STEPS = 120
MOST_SLACK_STEPS = 1600
STEPS_PER_LOSS = 16
ENOUGH_SLACK = 3.0
"""Slack beyond this multiple of what losses are expected to take changes nothing."""
SETTLED = 1e-7


@dataclass(frozen=True, slots=True, kw_only=True)
class Gang:
    """Machines that run, and are lost, together.

    Attributes:
        spot_usd, on_demand_usd: USD per hour of all machines.
        hazard_per_hour: losses per hour up.
        drought_hours: mean wait until spot is back.
        reload_hours: from the start of a machine to work, on both kinds.
        checkpoint_hours: work between two checkpoints; 0 = nothing finished is lost.
    """

    spot_usd: float
    on_demand_usd: float
    hazard_per_hour: float
    drought_hours: float
    reload_hours: float
    checkpoint_hours: float = 0.0

    @property
    def restart_hours(self) -> float:
        """Hours from a start after a loss to new work: reload, and half an interval again."""
        return self.reload_hours + self.checkpoint_hours / 2

    @property
    def reserve_hours(self) -> float:
        """What must be left over beyond the work when on-demand is called."""
        return self.reload_hours + self.checkpoint_hours


@dataclass(frozen=True, slots=True)
class Outcome:
    """Expected course of one job.

    Attributes:
        usd: expected cost.
        spot_hours, on_demand_hours: billed, of the whole gang.
        losses: preemptions.
        switch_probability: chance that on-demand is needed, 0..1.
    """

    usd: float
    spot_hours: float
    on_demand_hours: float
    losses: float
    switch_probability: float


def slack_hours(gang: Gang, work_hours: float, deadline_hours: float) -> float:
    """Hours that may be lost before on-demand must start; negative = too late from the start."""
    return deadline_hours - work_hours - gang.reserve_hours


def on_demand_outcome(gang: Gang, work_hours: float) -> Outcome:
    """All of it on demand."""
    hours = gang.reload_hours + work_hours
    return Outcome(gang.on_demand_usd * hours, 0.0, hours, 0.0, 1.0)


def spot_outcome(gang: Gang, work_hours: float, deadline_hours: float) -> Outcome | None:
    """Start on spot, leave it at the best moment that is safe; None without time for a start."""
    slack = slack_hours(gang, work_hours, deadline_hours)
    if slack < 0:
        return None
    if gang.hazard_per_hour == 0:
        hours = gang.reload_hours + work_hours
        if slack < gang.reload_hours - 1e-9 and deadline_hours < hours:
            return None
        return Outcome(gang.spot_usd * hours, hours, 0.0, 0.0, 0.0)
    return _solved(gang, work_hours, slack)


# Rows of the tables: billed spot hours, billed on-demand hours, chance of on-demand.
_SPOT, _FIRM, _SWITCH = range(3)


def _solved(gang: Gang, work_hours: float, slack: float) -> Outcome:
    """March over slack, all amounts of work at once."""
    hazard, drought = gang.hazard_per_hour, gang.drought_hours
    step = _step(gang, work_hours)
    number = min(MOST_SLACK_STEPS, int(slack / step + 1e-9))
    width = work_hours / WORK_STEPS
    work = np.arange(WORK_STEPS + 1) * width
    price = np.array([gang.spot_usd, gang.on_demand_usd, 0.0])
    leave = np.stack([np.zeros_like(work), gang.restart_hours + work, np.ones_like(work)])
    stay = max(0.0, 1 - step / drought) if drought > 0 else 0.0  # so that the mean is the drought
    serving: list[Array] = []
    waiting: list[Array] = []
    launched: list[Array] = []
    for now in range(number + 1):
        wait = leave
        if now:
            wait = _cheaper(stay * waiting[-1] + (1 - stay) * launched[-1], leave, price)
        waiting.append(wait)
        serving.append(_serve(wait, width, hazard))
        launch = _launch(serving, waiting, gang.restart_hours, step, hazard)
        launched.append(leave if launch is None else _cheaper(launch, leave, price))
        if launched[-1][_SWITCH, -1] < SETTLED:
            break
    up = 1 / (1 + hazard * drought)
    start = _launch(serving, waiting, gang.reload_hours, step, hazard)
    leave_at_once = np.array([0.0, gang.reload_hours + work_hours, 1.0])
    begun = leave_at_once if start is None else _cheaper(start[:, -1], leave_at_once, price)
    course = up * begun + (1 - up) * _cheaper(waiting[-1][:, -1], leave_at_once, price)
    spot, firm, switch = (float(value) for value in course)
    usd = gang.spot_usd * spot + gang.on_demand_usd * firm
    return Outcome(usd, spot, firm, hazard * spot, min(1.0, switch))


def _step(gang: Gang, work_hours: float) -> float:
    """Step of slack: a part of what one loss takes; it does not depend on the deadline.

    The last steps reach several times the time that losses are expected to take in all.
    """
    loss = gang.restart_hours + gang.drought_hours
    each = [hours for hours in (gang.restart_hours, gang.drought_hours) if hours > 0]
    expected = loss * (1 + gang.hazard_per_hour * work_hours)
    finest = min(each, default=work_hours / WORK_STEPS) / STEPS_PER_LOSS
    return max(finest, ENOUGH_SLACK * expected / MOST_SLACK_STEPS, 1e-6)


def _serve(wait: Array, width: float, hazard: float) -> Array:
    """Exact in the step for a loss that is spread evenly over it."""
    kept = math.exp(-hazard * width)
    gain = (1 - kept) * (wait[:, 1:] + wait[:, :-1]) / 2
    gain[_SPOT] += (1 - kept) / hazard
    done = np.zeros((3, 1))
    return np.hstack([done, lfilter([1.0], [1.0, -kept], gain, axis=1)])


def _launch(
    serving: list[Array], waiting: list[Array], hours: float, step: float, hazard: float
) -> Array | None:
    """A start that takes some hours of the slack reached; None where it does not allow it."""
    back, part = divmod(hours / step, 1)
    later = len(serving) - 1 - int(back)
    sooner = later - 1 if part > 0 else later
    if sooner < 0:
        return None
    kept = math.exp(-hazard * hours)
    found = sum(
        share * (kept * serving[k] + (1 - kept) * waiting[k])
        for k, share in ((later, 1 - part), (sooner, part))
    )
    assert isinstance(found, np.ndarray)
    found[_SPOT] += (1 - kept) / hazard
    return found


def _cheaper(one: Array, other: Array, price: Array) -> Array:
    """For each amount of work, the course with the lower expected cost."""
    return np.where(price @ one < price @ other, one, other)
