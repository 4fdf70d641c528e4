"""Why an offer is not in the plan: what shuts it out, or by how much it is too dear.

The entry price of an offer is the highest price at which some fleet with it costs no more than the
plan does. It is found by solving again: at a price p the best fleet with the offer costs C(p) and
is billed h instance-hours of it, so that fleet ties with the plan (cost C*) at
``p + (C* - C(p)) / h``; from there the step is repeated until nothing better is found (Dinkelbach's
method; it only rises, and two or three steps are enough). Price less entry price is what linear
programming calls the reduced cost, here with whole instances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from core.errors import PlanInfeasible
from core.money import plain
from optimizer.choice import Chosen, choose
from optimizer.costing import instance_hours
from optimizer.market import SupplyOption
from optimizer.money import exact
from optimizer.obstacles import named_limits
from optimizer.pools import LEAST_USEFUL_SHARE, make_pools
from optimizer.selection import Selection
from optimizer.slot_risk import slot_risk
from optimizer.workload import Workload

NEARLY_FREE = Decimal("0.01")
"""Share of its price at which an offer that fits anywhere is taken."""
STEPS = 5
_ENOUGH = Decimal("0.002")
"""Steps shorter than this share of the price are not worth another solve."""
_SIX = Decimal("0.000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class WhyNot:
    """The answer for one offer.

    Attributes:
        option: the offer, at its own price.
        verdict: ``in_plan``, ``excluded`` (a filter or the state of its price), ``does_not_fit``,
            ``limit`` (a limit of the fleet), ``no_use`` (not even nearly free), ``priced_out`` or
            ``tied``.
        reasons: what shuts it out, in words, the first one first.
        allowed_usd_per_month: cost of the best fleet with the filters lifted for this offer.
        entry_usd_per_hour: the highest price at which it enters, USD per instance-hour; None where
            no price was looked for, or none brings it in.
        forced_usd_per_month: cost of the fleet that then takes it, at the offer's real price.
        solves: how often the program was solved.
    """

    option: SupplyOption
    verdict: str
    reasons: tuple[str, ...]
    plan_usd_per_month: Decimal
    allowed_usd_per_month: Decimal | None = None
    entry_usd_per_hour: Decimal | None = None
    forced_usd_per_month: Decimal | None = None
    solves: int = 0

    @property
    def fall(self) -> Decimal | None:
        """USD per instance-hour by which it would have to get cheaper."""
        entry = self.entry_usd_per_hour
        return None if entry is None else self.option.usd_per_instance_hour - entry

    def to_json(self) -> dict[str, Any]:
        """As in the plan's contract."""
        option, fall = self.option, self.fall
        return {
            "offer_id": option.offer_id,
            "provider": option.provider,
            "tier": option.tier,
            "region": option.region,
            "zone": option.zone,
            "instance_type": option.instance_type,
            "gpu": option.gpu,
            "gpu_count": float(option.gpu_count),
            "purchase_option": str(option.purchase_option),
            "usd_per_instance_hour": plain(option.usd_per_instance_hour),
            "verdict": self.verdict,
            "reasons": list(self.reasons),
            "plan_usd_per_month": plain(self.plan_usd_per_month),
            "allowed_usd_per_month": _text(self.allowed_usd_per_month),
            "entry_usd_per_hour": _text(self.entry_usd_per_hour),
            "fall_usd_per_hour": _text(fall),
            "fall_share": None
            if fall is None
            else round(float(fall / option.usd_per_instance_hour), 6),
            "forced_usd_per_month": _text(self.forced_usd_per_month),
            "solves": self.solves,
        }


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else plain(usd)


def why_not(
    workload: Workload,
    options: Sequence[SupplyOption],
    target: SupplyOption,
    chosen: Chosen,
    *,
    selection: Selection | None = None,
    refused: str = "",
) -> WhyNot:
    """Say why an offer is not in the plan.

    Args:
        options: what the plan was chosen from.
        target: the offer, among the options or not.
        chosen: the plan's own fleet.
        selection: what the options were selected by.
        refused: why the offer's price must not be planned with (stale, sold out, ...), or "".
    """
    usd = chosen.cost.total
    known = next((item for item in options if item.offer_id == target.offer_id), None)
    target = known or target
    if any(pool.option.offer_id == target.offer_id for pool in chosen.used()):
        return WhyNot(
            option=target, verdict="in_plan", reasons=("it is in the plan",), plan_usd_per_month=usd
        )
    if refused:
        return WhyNot(
            option=target, verdict="excluded", plan_usd_per_month=usd,
            reasons=(f"its price is not planned with: {refused}",),
        )  # fmt: skip
    if misfit := _misfit(workload, target):
        return WhyNot(
            option=target, verdict="does_not_fit", reasons=(misfit,), plan_usd_per_month=usd
        )
    filters = () if known is not None else filtered_by(workload, target, selection)
    open_to_it = replace(workload, gpus=(*workload.gpus, target.gpu)) if workload.gpus else workload
    if filters and workload.gpus:
        # Other offers of that GPU stay shut out: they are not among the options.
        options = [item for item in options if item.gpu in workload.gpus]
    return _Search(open_to_it, options, target, usd).answer(filters)


def filtered_by(
    workload: Workload, target: SupplyOption, selection: Selection | None
) -> tuple[str, ...]:
    """The filters that keep an offer from being looked at at all."""
    found = []
    if workload.gpus and target.gpu not in workload.gpus:
        found.append(f"{target.gpu} is not among the GPUs asked for ({', '.join(workload.gpus)})")
    if selection is None:
        return tuple(found)
    if selection.providers and target.provider not in selection.providers:
        found.append(
            f"{target.provider} is not among the providers asked for"
            f" ({', '.join(selection.providers)})"
        )
    if selection.regions and not any(
        target.region.lower().startswith(region.lower()) for region in selection.regions
    ):
        found.append(
            f"{target.region} is not in the regions asked for ({', '.join(selection.regions)})"
        )
    if target.tier == "community" and not selection.community:
        found.append("it is a private host, and those were not asked for")
    return tuple(found)


def _misfit(workload: Workload, target: SupplyOption) -> str:
    anywhere = replace(workload, gpus=())
    if words := anywhere.why_not(target):
        return words
    risk = slot_risk(target, workload.reload_hours)
    if risk.up * risk.serving < LEAST_USEFUL_SHARE:
        return f"it would serve {risk.up * risk.serving:.2%} of the time"
    return ""


class _Search:
    """Looks for the price, or the limit, that stands between an offer and the plan."""

    def __init__(
        self,
        workload: Workload,
        options: Sequence[SupplyOption],
        target: SupplyOption,
        usd: Decimal,
    ) -> None:
        self.workload, self.target, self.usd = workload, target, usd
        self.others = [item for item in options if item.offer_id != target.offer_id]
        self.solves = 0

    def at(self, price: Decimal, workload: Workload | None = None) -> tuple[Decimal, Decimal]:
        """Cost of the best fleet with the offer at a price, and billed hours of it in that fleet.

        The cost is infinite where no fleet meets the target.
        """
        asked = workload or self.workload
        offer = replace(self.target, usd_per_instance_hour=price)
        self.solves += 1
        try:
            found = choose(asked, make_pools(asked, [*self.others, offer]))
        except PlanInfeasible:
            return Decimal("Infinity"), Decimal(0)
        hours = instance_hours(found.market, found.blocks, found.counts)
        own = sum(
            (
                hour * exact(pool.risk.up) * exact(pool.billed_share)
                for pool, hour in zip(found.market.pools, hours, strict=True)
                if pool.option.offer_id == self.target.offer_id
            ),
            Decimal(0),
        )
        return found.cost.total, own

    def answer(self, filters: tuple[str, ...]) -> WhyNot:
        """Look at the filters, then at the price, then at the limits."""
        price = self.target.usd_per_instance_hour
        allowed = None
        if filters:
            allowed, hours = self.at(price)
            if hours:
                gain = self.usd - allowed
                words = f"allowed, it would be in the plan, at {allowed:,.0f} USD a month"
                words += f" ({gain:,.0f} less)" if gain >= 1 else ""
                return self._told("excluded", (*filters, words), allowed)
        if hard := self._hard_limit():
            return self._told("excluded" if filters else "limit", (*filters, hard), allowed)
        low = price * NEARLY_FREE
        cost, hours = self.at(low)
        if not hours:
            held = self._limits(low)
            verdict = "excluded" if filters else "limit" if held else "no_use"
            useless = "no price brings it in: even nearly free it does not help to keep the target"
            return self._told(verdict, (*filters, *(held or [useless])), allowed)
        entry, forced = low, self.usd
        for _ in range(STEPS):
            tie = min(price, low + (self.usd - cost) / hours)
            entry, forced = tie, cost + hours * (price - low)
            if tie >= price or tie - low < _ENOUGH * price:
                break
            low = tie
            low *= 1 - _ENOUGH / 2  # at the tie itself either fleet may come out
            cost, hours = self.at(low)
            if not hours or cost > self.usd:
                break
        entry = max(entry, Decimal(0)).quantize(_SIX)
        return self._priced(filters, allowed, entry, forced)

    def _priced(
        self, filters: tuple[str, ...], allowed: Decimal | None, entry: Decimal, forced: Decimal
    ) -> WhyNot:
        price = self.target.usd_per_instance_hour
        fall = price - entry
        if fall <= _ENOUGH * price:
            verdict = "tied"
            words = "a fleet with it costs as much as the plan, to what the solver can tell"
        else:
            verdict = "priced_out"
            words = (
                f"too dear: it enters at {plain(entry)} USD an hour, {plain(fall)}"
                f" ({fall / price:.1%}) below its price; with it at its price that fleet would"
                f" cost {forced:,.0f} USD a month, {forced - self.usd:,.0f} more than the plan"
            )
        return replace(
            self._told("excluded" if filters else verdict, (*filters, words), allowed),
            entry_usd_per_hour=entry,
            forced_usd_per_month=forced.quantize(Decimal("0.01")),
        )

    def _told(self, verdict: str, reasons: tuple[str, ...], allowed: Decimal | None) -> WhyNot:
        return WhyNot(
            option=self.target, verdict=verdict, reasons=reasons, plan_usd_per_month=self.usd,
            allowed_usd_per_month=allowed if allowed is not None and allowed.is_finite() else None,
            solves=self.solves,
        )  # fmt: skip

    def _hard_limit(self) -> str:
        """A limit that leaves no room for one instance of it."""
        limits, target = self.workload.limits, self.target
        gpus = int(target.gpu_count)
        if target.stock == 0:
            return "none is in stock"
        if limits.max_gpus is not None and gpus > limits.max_gpus:
            return f"one instance has {gpus} GPUs, the cap is {limits.max_gpus}"
        quota = limits.quotas.get(target.provider)
        if quota is not None and gpus > quota:
            return f"one instance has {gpus} GPUs, the quota at {target.provider} is {quota}"
        return ""

    def _limits(self, price: Decimal) -> list[str]:
        """The limits without which it would enter, were it nearly free."""
        pools = make_pools(self.workload, [*self.others, self.target])
        found = []
        for words, _, relaxed in named_limits(self.workload, pools):
            _, hours = self.at(price, replace(self.workload, limits=relaxed))
            if hours:
                found.append(f"held out by a limit: {words}")
        return found
