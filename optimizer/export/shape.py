"""What several targets ask of a fleet's shape: one provider, one region, a rate to scale by."""

from __future__ import annotations

import math
from collections.abc import Sequence

from core.errors import InputError
from optimizer.export.answer import Fleet

MOST_EXTRA = 0.5
"""Largest share of instance-hours beyond the plan's that an export may run without being refused.

Our choice: beyond it the price on top of the file is no longer the price of what it starts.
"""

LEAST_RATE = 1e-6
"""Requests/s of a replica below which a rate says nothing: one request in 12 days."""


def only_provider(fleet: Fleet, provider: str, target: str, mend: str) -> None:
    """Refuse a fleet that runs anywhere else.

    Raises:
        InputError: a row belongs to another provider.
    """
    others = sorted({row.provider for row in fleet.rows} - {provider})
    if others:
        raise InputError(f"{target}: expresses {provider} alone, not {', '.join(others)}; {mend}")


def one_region(fleet: Fleet, target: str) -> str:
    """The one region of a fleet; "" where no row says it.

    Raises:
        InputError: there are several.
    """
    regions = sorted({row.region for row in fleet.rows if row.region})
    if len(regions) > 1:
        raise InputError(
            f"{target}: lives in one region, the plan uses {', '.join(regions)};"
            " plan again with --region"
        )
    return regions[0] if regions else ""


def peak_rate_share(fleet: Fleet, planned: Sequence[int], target: str) -> float:
    """Requests/s per counted instance at which a scaler reaches the planned number at the peak.

    A scaler runs ``ceil(rate / target)`` instances. The target is the rate of the busiest hour over
    the instances planned for it, so headroom and spare spot of that hour are kept. 12 replicas of
    1.5 requests/s that run on 15 instances: 12 x 1.5 / 15 = 1.2. Rounded down to 4 digits.

    Raises:
        InputError: the plan does not know what a replica serves.
    """
    if (fleet.requests_per_second or 0.0) < LEAST_RATE:
        raise InputError(
            f"{target}: scales by requests/s, and the plan does not know what a replica serves;"
            " plan again with --rps-per-replica"
        )
    most = max(planned)
    need = max(fleet.demand[hour] for hour, count in enumerate(planned) if count == most)
    share = max(need, 1e-3) * (fleet.requests_per_second or 0.0) / most
    digits = 3 - math.floor(math.log10(share))
    steps = 10.0**digits
    return math.floor(share * steps + 1e-6) / steps


def scaled(fleet: Fleet, planned: Sequence[int], target: float) -> tuple[int, ...]:
    """Instances that a scaler runs in each hour, were the demand as planned.

    It runs ``ceil(rate / target)``, never fewer than the plan's least nor more than its most. At
    1 request/s a replica and a target of 1, 6 replicas in 12 hours and 12 in the others, planned
    on 5 and 12 instances, are run on 6 and 12.
    """
    rate = fleet.requests_per_second or 0.0
    least, most = min(planned), max(planned)
    return tuple(
        min(max(math.ceil(need * rate / target - 1e-9), least), most) for need in fleet.demand
    )


def scaler_note(planned: Sequence[int], run: Sequence[int], what: str) -> str:
    """Say how a scaler's hours differ from the plan's."""
    fewer = sum(ran < wanted for ran, wanted in zip(run, planned, strict=True))
    missing = f"; in {fewer} hours fewer run than planned" if fewer else ""
    span = "day" if len(planned) == 24 else "week"
    return (
        f"{what}: the plan's hours become {min(planned)} to {max(planned)} instances that follow"
        f" the requests/s; at the planned demand that is {sum(run)} instance-hours a {span}, the"
        f" plan has {sum(planned)}{missing}"
    )


def require_near(planned: Sequence[int], run: Sequence[int], target: str) -> None:
    """Refuse a scaler that would cost far more than the plan.

    Raises:
        InputError: it runs over ``MOST_EXTRA`` more instance-hours than planned.
    """
    if sum(run) > (1 + MOST_EXTRA) * sum(planned):
        raise InputError(
            f"{target}: scales by requests/s alone and would run {sum(run)} instance-hours where"
            f" the plan has {sum(planned)}, because the plan changes its mix by the hour;"
            " export csv-hourly, which keeps every hour"
        )
