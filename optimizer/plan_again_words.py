"""A plan looked at again, in words: the summary, and what could change the decision."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from optimizer.pools import Pool
from optimizer.receipt import Opened

if TYPE_CHECKING:
    from optimizer.supply import Supply

Now = tuple[str, Pool | None]
"""How an offer of the plan was found again (``offer``, ``same machine`` or ""), and its pool."""


def warnings(
    document: Mapping[str, Any],
    opened: Opened,
    supply: Supply,
    rows: Sequence[Now],
    keeps: bool | None,
    trouble: str,
    now: datetime,
) -> list[str]:
    """Say what is missing, old, or no longer holds.

    Args:
        document: the plan.
        rows: its offers as they are now.
        keeps: whether the fleet still keeps its target.
        trouble: why there is no fleet now, or "".
    """
    lines = []
    if not opened.intact:
        lines.append("The receipt is not intact: this is not the plan as it was answered.")
    if opened.selection is None and not document.get("supply"):
        lines.append(
            "The receipt names no selection of providers and regions: the best fleet is taken from"
            " the providers of the plan's own."
        )
    gone = [
        supply.refused.get(number) or "no longer listed"
        for number, (how, _) in zip(document["receipt"]["offer_ids"], rows, strict=True)
        if not how
    ]
    if gone:
        words = ", ".join(f"{gone.count(reason)} {reason}" for reason in sorted(set(gone)))
        lines.append(f"Prices needed are missing, so the plan has no cost now: {words}.")
    other = sum(how == "same machine" for how, _ in rows)
    if other:
        lines.append(f"{other} offers are no longer there; the same machine's price is taken.")
    if keeps is False:
        lines.append("At the preemption rates of now the fleet no longer keeps its target.")
    if trouble:
        lines.append(f"No fleet meets the target now: {trouble}.")
    chosen = [pool.option for _, pool in rows if pool is not None]
    if any(option.freshness == "snapshot" for option in chosen):
        lines.append("Prices of now are the bundled snapshot: not live.")
    if any(option.freshness == "ageing" for option in chosen):
        lines.append("Some prices of now are ageing; collect again.")
    if chosen and (age := now - min(option.price_as_of for option in chosen)).days >= 1:
        lines.append(f"The oldest price taken for now is {age.days} days old.")
    return lines


def summary(told: Mapping[str, Any]) -> str:
    """Say in one sentence what was found."""
    then, now, best = told["then"], told["now"]["usd_per_month"], told["best"]
    text = f"Planned at {Decimal(then['usd_per_month']):,.0f} USD a month"
    if now is None:
        text += "; it cannot be priced now"
    else:
        text += f", it costs {Decimal(now):,.0f} now"
    if best is None:
        return text + "; no fleet meets the target now."
    if told["still_best"]:
        return text + ", and is still the best."
    text += f"; the best fleet now costs {Decimal(best['usd_per_month']):,.0f}"
    saving = told["saving_usd_per_month"]
    if saving is not None and Decimal(saving) > 0:
        text += f", {Decimal(saving):,.0f} less"
    return text + "."
