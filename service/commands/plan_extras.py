"""What ``plan solve`` adds on request: sensitivity, break-even curves, why an offer is not in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import typer

from core.errors import InputError
from service.output import print_table, quiet_solver, say

if TYPE_CHECKING:
    from optimizer.market import SupplyOption
    from optimizer.plan import Plan
    from optimizer.supply import Supply
    from service.context import Context

MOST_ASKED = 5
"""Offers asked about at one time: each takes several solves."""


def extras(
    plan: Plan,
    supply: Supply,
    house: Context,
    *,
    sensitivity: bool,
    why_not: Sequence[str],
) -> dict[str, Any]:
    """Answer what was asked for beside the plan: further keys of its document.

    Raises:
        InputError: no stored offer is meant by a ``--why-not``, or too many were given.
    """
    if not (sensitivity or why_not):
        return {}
    from optimizer.choice import choose
    from optimizer.pools import make_pools

    if len(why_not) > MOST_ASKED:
        raise InputError(f"--why-not: {len(why_not)} offers; ask about {MOST_ASKED} at a time")
    told: dict[str, Any] = {}
    asked = [_asked(text, supply, house) for text in why_not]
    with quiet_solver():
        chosen = choose(plan.workload, make_pools(plan.workload, supply.options))
        if sensitivity:
            from optimizer.break_even import curves
            from optimizer.sensitivity import tornado
            from optimizer.variation import seen

            say("solving again with each input changed, up to 47 times …")
            base = seen(chosen)
            told["sensitivity"] = {
                **tornado(plan.workload, supply.options, base).to_json(),
                "break_even": [
                    curve.to_json() for curve in curves(plan.workload, supply.options, base)
                ],
            }
        if asked:
            from optimizer.selection import selection_from_json
            from optimizer.why_not import why_not as look

            selection = selection_from_json(plan.receipt["selection"])
            told["why_not"] = [
                {
                    "asked": text,
                    "matches": count,
                    **look(
                        plan.workload, supply.options, offer, chosen,
                        selection=selection, refused=refused,
                    ).to_json(),
                }
                for text, (offer, count, refused) in zip(why_not, asked, strict=True)
            ]  # fmt: skip
    return told


def _asked(text: str, supply: Supply, house: Context) -> tuple[SupplyOption, int, str]:
    """The offer that is meant, how many fit the words, and why its price is refused, or "".

    Of several, the one with the lowest price per GPU that can be planned with.
    """
    from db.engine import reading
    from optimizer.supply import every_offer

    with reading(house.database) as session:
        fits = [
            (option, refused)
            for option, refused in every_offer(session, house.clock.now(), supply.origin)
            if _meant(text, option)
        ]
    if not fits:
        raise InputError(
            f"--why-not {text!r}: no stored offer is meant; give an offer's id (offer_ids of a"
            " receipt) or words that it has, e.g. 'aws us-east-1 l4 spot'"
        )
    offer, refused = min(
        fits,
        key=lambda item: (
            bool(item[1]), item[0].usd_per_instance_hour / item[0].gpu_count, item[0].offer_id,
        ),
    )  # fmt: skip
    return offer, len(fits), refused


def _meant(text: str, option: SupplyOption) -> bool:
    """Whether a number is the offer's id, or all words are among what it says of itself."""
    if text.strip().isdigit():
        return option.offer_id == int(text)
    purchase = str(option.purchase_option).replace("_", "-")
    said = [
        option.provider, option.tier, option.region, option.zone, option.instance_type, option.gpu,
        purchase,
    ]  # fmt: skip
    lower = [item.lower() for item in said if item]
    words = text.lower().replace("on_demand", "on-demand").split()
    return bool(words) and all(
        any(item == word or (len(word) > 3 and item.startswith(word)) for item in lower)
        for word in words
    )


def print_extras(document: dict[str, Any]) -> None:
    """Print what was added, for people."""
    if "sensitivity" in document:
        _print_sensitivity(document["sensitivity"])
    for told in document.get("why_not", ()):
        place = f"{told['provider']} {told['zone'] or told['region']}"
        kind = told["purchase_option"].replace("_", "-")
        several = f" (the cheapest of {told['matches']})" if told["matches"] > 1 else ""
        typer.echo(
            f"\nwhy not {told['instance_type']} {kind} at {place}, offer {told['offer_id']},"
            f" {told['usd_per_instance_hour']} USD/h{several}: {told['verdict'].replace('_', ' ')}"
        )
        for reason in told["reasons"]:
            typer.echo(f"  - {reason}")


def _print_sensitivity(told: dict[str, Any]) -> None:
    step = f"{told['step']:.0%}"
    typer.echo(
        f"\nUSD a month with each input {step} lower and higher, solved again; the plan:"
        f" {_usd(told['base_usd_per_month'])}"
    )
    print_table(
        [("label", "input"), ("low", f"-{step}>"), ("high", f"+{step}>"), ("swing", "swing>"),
         ("fleet", "fleet"), ("note", "")],
        [
            {
                "label": bar["label"],
                "low": _usd(bar["low"]["usd_per_month"]),
                "high": _usd(bar["high"]["usd_per_month"]),
                "swing": "" if bar["note"] else _usd(bar["swing_usd_per_month"]),
                "fleet": "changes"
                if bar["low"]["fleet_changed"] or bar["high"]["fleet_changed"]
                else "the same",
                "note": bar["note"],
            }
            for bar in told["bars"]
        ],
    )  # fmt: skip
    for curve in told["break_even"]:
        typer.echo(f"Cost by {curve['label']}: {curve['note']}")
        print_table(
            [("x", f"{curve['unit']}>"), ("usd", "USD a month>"), ("spot", "on spot>")],
            [
                {
                    "x": f"{point['x']:.3g}",
                    "usd": _usd(point["usd_per_month"]),
                    "spot": "" if point["spot_share"] is None else f"{point['spot_share']:.0%}",
                }
                for point in curve["points"]
            ],
        )


def _usd(text: str | None) -> str:
    return "no fleet" if text is None else f"{float(text):,.0f}"
