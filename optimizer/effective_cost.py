"""What an hour of spot really costs once reloads are counted.

Symbols: ``p`` spot price (USD per billed hour), ``q`` on-demand price, ``n`` preemptions per hour,
``R`` hours from the start of billing until the replica serves, ``L`` life of an instance.

The founding articles charge reloads on top of the hour: ``p (1 + nR)``. But a reloading replica
is billed and serves nothing, so the true figure is renewal-reward, ``p E[L] / E[(L - R)+]``, and
depends on how lives are distributed:

* evenly spaced (worst case, by Jensen): useful share ``max(0, 1 - nR)``
* exponential: ``exp(-nR)``
* a mixture of exponentials with weights w and means m: ``Σ w m exp(-R/m) / Σ w m``

All agree with the article to first order in nR. Derivation: renewal-reward theorem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from core.money import plain
from optimizer import effective_inputs
from optimizer.billing import BillingRule, rule_of

_SIX = Decimal("0.000001")
_NEVER = 1e-12


def article_usd_per_hour(p: float, n: float, r_hours: float) -> float:
    """The articles' figure: ``p (1 + nR)``, USD per hour."""
    return p * (1 + n * r_hours)


def useful_share_even(n: float, r_hours: float) -> float:
    """Share of billed time that serves when preemptions come at even distances (0..1)."""
    return max(0.0, 1 - n * r_hours)


def useful_share_exponential(n: float, r_hours: float) -> float:
    """Share of billed time that serves when lives are exponential with mean 1/n hours."""
    return math.exp(-n * r_hours)


def useful_share_mixture(
    weights: Sequence[float], means_hours: Sequence[float], r_hours: float
) -> float:
    """Share of billed time that serves when lives are a mixture of exponentials.

    Raises:
        ValueError: lengths differ, or a weight or mean is not positive.
    """
    if len(weights) != len(means_hours) or not weights:
        raise ValueError("a mixture needs as many weights as means, and at least one")
    if min(weights) <= 0 or min(means_hours) <= 0:
        raise ValueError("weights and means of a mixture must be positive")
    pairs = list(zip(weights, means_hours, strict=True))
    return sum(w * m * math.exp(-r_hours / m) for w, m in pairs) / sum(w * m for w, m in pairs)


def usd_per_useful_hour(p: float, useful_share: float) -> float:
    """USD per hour that serves; infinite when (practically) nothing ever serves."""
    return math.inf if useful_share <= _NEVER else p / useful_share


def usd_per_useful_hour_billed(
    p: float, rule: BillingRule, hazard_per_hour: float, reload_hours: float
) -> float:
    """USD per hour that serves under a billing rule: ``p λE[B] / e^-λR``, exponential lives."""
    useful = useful_share_exponential(hazard_per_hour, reload_hours)
    return usd_per_useful_hour(p * rule.billed_share(hazard_per_hour), useful)


def break_even_even(p: float, q: float, r_hours: float) -> float:
    """Preemptions per hour at which evenly preempted spot costs as much as on-demand.

    0 when spot is not cheaper to begin with; infinite without reload time.
    """
    if p >= q:
        return 0.0
    return math.inf if r_hours == 0 else (1 - p / q) / r_hours


def break_even_exponential(p: float, q: float, r_hours: float) -> float:
    """As ``break_even_even`` for exponential lives: ``ln(q/p) / R``."""
    if p >= q:
        return 0.0
    return math.inf if r_hours == 0 else math.log(q / p) / r_hours


def break_even_reload_even(p: float, q: float, n: float) -> float:
    """Hours of reload at which evenly preempted spot costs as much as on-demand: ``(1 - p/q)/n``.

    0 when spot is not cheaper to begin with; infinite without preemptions.
    """
    if p >= q:
        return 0.0
    return math.inf if n == 0 else (1 - p / q) / n


def break_even_reload_exponential(p: float, q: float, n: float) -> float:
    """As ``break_even_reload_even`` for exponential lives: ``ln(q/p) / n``."""
    if p >= q:
        return 0.0
    return math.inf if n == 0 else math.log(q / p) / n


def service_gap_hours(drought_hours: float, reload_hours: float, notice_hours: float) -> float:
    """Hours without service when a replacement is asked for at the notice: ``(D + R - w)+``."""
    return max(0.0, drought_hours + reload_hours - notice_hours)


def usd_per_covered_hour(
    p: float, q: float, *, life: float, drought: float, reload_hours: float, stand_in_reload: float
) -> float:
    """USD per hour when on-demand fills each gap of a spot slot.

    ``(p E[L] + q (E[D] + R + R')) / (E[L] + E[D])``: on demand runs through the drought, its own
    reload R' and the spot replica's reload R. All times in hours; means.
    """
    return (p * life + q * (drought + reload_hours + stand_in_reload)) / (life + drought)


def expected_hours_without_checkpoint(hazard_per_hour: float, work_hours: float) -> float:
    """Expected billed hours of a job that starts over at each preemption: ``(e^(λW) - 1) / λ``."""
    if hazard_per_hour == 0:
        return work_hours
    try:
        return math.expm1(hazard_per_hour * work_hours) / hazard_per_hour
    except OverflowError:
        return math.inf


def ready_share(hazard_per_hour: float, reload_hours: float) -> float:
    """Share of time that a slot serves when only a serving instance is preempted: ``1/(1+λR)``.

    λ counts per hour that serves; the spot price times the inverse is the price of such an hour.
    """
    return 1 / (1 + hazard_per_hour * reload_hours)


def chance_of_at_least(wanted: int, slots: int, share: float) -> float:
    """Chance that at least ``wanted`` of ``slots`` independent slots serve (binomial)."""
    return sum(
        math.comb(slots, k) * share**k * (1 - share) ** (slots - k)
        for k in range(max(0, wanted), slots + 1)
    )


def effective_cost_report(
    *,
    hourly: str | Decimal | float,
    preemptions_per_hour: str | Decimal | float | None = None,
    reload_minutes: str | Decimal | float,
    on_demand: str | Decimal | float | None = None,
    losses: str | Decimal | float | None = None,
    hours_up: str | Decimal | float | None = None,
    provider: str | None = None,
) -> dict[str, Any]:
    """Answer ``spotfloor effective-cost``: both figures, by lifetime, with the break-even.

    Args:
        preemptions_per_hour: the rate, or else ``losses`` in ``hours_up``, which give it an
            interval.
        provider: whose billing rule to count with too; by the second where none is stated.

    Raises:
        InputError: a value is no number, negative, or a price is zero.
    """
    p = effective_inputs.price("--hourly", hourly)
    rate = effective_inputs.rate(preemptions_per_hour, losses, hours_up)
    n = rate.per_hour
    minutes = effective_inputs.at_least_zero(
        "--reload-minutes", reload_minutes, effective_inputs.MOST_RELOAD_MINUTES, "69 days"
    )
    q = None if on_demand is None else effective_inputs.price("--on-demand", on_demand)
    r = minutes / 60
    even, exponential = useful_share_even(n, r), useful_share_exponential(n, r)
    figures = {
        "even": usd_per_useful_hour(p, even),
        "exponential": usd_per_useful_hour(p, exponential),
    }
    limit = None if q is None else break_even_even(p, q, r)
    advice = _recommend(figures["even"], q)
    return {
        "schema": "spotfloor.effective-cost/1",
        "inputs": {
            "hourly": str(hourly),
            "preemptions_per_hour": f"{n:.6g}"
            if rate.losses is not None
            else str(preemptions_per_hour),
            "reload_minutes": str(reload_minutes),
            "on_demand": None if on_demand is None else str(on_demand),
        },
        "rate": rate.to_json(),
        "article_usd_per_hour": _money(article_usd_per_hour(p, n, r)),
        "usd_per_useful_hour": _money(figures["even"]),
        "usd_per_useful_hour_interval": _ends(p, rate, r),
        "billing": None if provider is None else _billing(p, n, r, provider),
        "usd_per_useful_hour_by_lifetime": {k: _money(v) for k, v in figures.items()},
        "useful_share": round(even, 6),
        "useful_share_by_lifetime": {"even": round(even, 6), "exponential": round(exponential, 6)},
        "break_even_preemptions_per_hour": _rate(limit),
        "break_even_preemptions_per_hour_by_lifetime": {
            "even": _rate(limit),
            "exponential": None if q is None else _rate(break_even_exponential(p, q, r)),
        },
        "break_even_reload_minutes_by_lifetime": {
            "even": None if q is None else _minutes(break_even_reload_even(p, q, n)),
            "exponential": None if q is None else _minutes(break_even_reload_exponential(p, q, n)),
        },
        "recommendation": advice,
        "text": [
            *_words(p, n, minutes, q, figures, even, limit, advice),
            *_more_words(p, rate, r, provider),
        ],
    }


def _ends(p: float, rate: effective_inputs.Rate, r: float) -> list[str | None] | None:
    """The even figure at the ends of the rate's interval; None at an end that never serves."""
    if rate.low is None or rate.high is None:
        return None
    return [_money(usd_per_useful_hour(p, useful_share_even(n, r))) for n in (rate.low, rate.high)]


def _billing(p: float, n: float, r: float, provider: str) -> dict[str, Any]:
    rule = rule_of(provider)
    return {
        "provider": provider,
        "source": rule.source,
        "billed_share": round(rule.billed_share(n), 6),
        "usd_per_useful_hour": _money(usd_per_useful_hour_billed(p, rule, n, r)),
    }


def _more_words(p: float, rate: effective_inputs.Rate, r: float, provider: str | None) -> list[str]:
    lines = []
    ends = _ends(p, rate, r)
    if ends is not None:
        low, high = (end or "never serves" for end in ends)
        lines.append(
            f"  the rate is {rate.losses} preemptions in {rate.hours_up:g} hours up: 90 % interval"
            f" {rate.low:.3g} to {rate.high:.3g} per hour, so {low} to {high} USD/h (evenly spaced)"
        )
    if provider is not None:
        billed = _billing(p, rate.per_hour, r, provider)
        lines.append(
            f"  billed as at {provider}: {billed['usd_per_useful_hour'] or 'never serves'} USD/h if"
            f" exponential ({billed['billed_share']:.1%} of the time up; {billed['source']})"
        )
    return lines


def _recommend(usd: float, q: float | None) -> str | None:
    if q is None:
        return None
    if math.isclose(usd, q, rel_tol=1e-9):
        return "tie"
    return "spot" if usd < q else "on_demand"


def _words(
    p: float,
    n: float,
    minutes: float,
    q: float | None,
    figures: dict[str, float],
    even: float,
    limit: float | None,
    advice: str | None,
) -> list[str]:
    lines = [
        f"spot at {p:g} USD/h, preempted {n:g} times an hour, {minutes:g} minutes to reload:",
        f"  article's figure       {article_usd_per_hour(p, n, minutes / 60):.4f} USD/h"
        " (charges reloads on top, credits full output)",
    ]
    if math.isinf(figures["even"]):
        lines.append("  per useful hour        never serves: reloads take all of the time")
    else:
        lines.append(
            f"  per useful hour        {figures['even']:.4f} USD/h if preemptions are evenly spaced"
            f" ({even:.1%} of the billed time serves)"
        )
    if math.isinf(figures["exponential"]):
        lines.append("  per useful hour        practically never serves if exponential")
    else:
        lines.append(f"  per useful hour        {figures['exponential']:.4f} USD/h if exponential")
    if q is None or limit is None:
        lines.append("  give --on-demand to compare and to see the break-even rate")
        return lines
    shown = "any rate" if math.isinf(limit) else f"{limit:.2f} preemptions per hour"
    lines.append(f"  break-even with {q:g} USD/h on demand: {shown}")
    longest = 60 * break_even_reload_even(p, q, n)
    if math.isfinite(longest):
        lines.append(f"  or, at {n:g} an hour, {longest:.1f} minutes to reload (evenly spaced)")
    better = {"spot": "spot is cheaper", "on_demand": "on-demand is cheaper", "tie": "a tie"}
    lines.append(f"  so: {better[advice or 'tie']} per hour that serves")
    return lines


def _money(value: float) -> str | None:
    return None if math.isinf(value) else plain(Decimal(repr(value)).quantize(_SIX))


def _rate(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else round(value, 6)


def _minutes(hours: float) -> float | None:
    return _rate(60 * hours)
