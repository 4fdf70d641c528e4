"""A plan looked at again: is its receipt intact, does it come out again, what would it cost now,
and is it still the best?

Pure: the caller reads the offers of the plan's selection as they are now (``supply.select_supply``,
and ``pricing.basis`` where its prices are figures over time) and what the stored price rows say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np

from core.clock import iso
from core.errors import PlanInfeasible
from core.money import plain
from optimizer.choice import traffic_rate
from optimizer.costing import Cost, cost_of_hours
from optimizer.fleet import MIP_GAP, Counts, make_market, merge_blocks, served_share, unserved
from optimizer.limits import room_for_stand_ins
from optimizer.market import SupplyOption
from optimizer.plan import Plan, solve_plan
from optimizer.plan_again_words import Now, summary, warnings
from optimizer.plan_then import fleet_hours, listed, match
from optimizer.pools import Pool, make_pools
from optimizer.receipt import Opened, digest, open_plan
from optimizer.selection import Selection, selection_from_json
from optimizer.workload import Workload

if TYPE_CHECKING:
    from optimizer.supply import Supply

SCHEMA = "spotfloor.plan-reprice/1"

_SAME_SHARE = 1e-6
_NAMED = ("provider", "region", "zone", "instance_type", "purchase_option")


@dataclass(frozen=True, slots=True)
class Repriced:
    """What a later look at a plan found.

    Attributes:
        usd_per_month: the plan's fleet at the prices of now; None where one of them is missing.
        best_usd_per_month: the best fleet of now; None where none meets the target.
        still_best: nothing cheaper is known beyond what the solver can tell apart, and the fleet
            still keeps its target.
        document: the JSON contract ``spotfloor.plan-reprice/1``.
    """

    plan_id: str
    at: datetime
    usd_per_month: Decimal | None
    best_usd_per_month: Decimal | None
    still_best: bool
    document: Mapping[str, Any]


def selection_of(document: Mapping[str, Any]) -> Selection:
    """What a plan was chosen from; one that does not say stays with the providers of its fleet.

    Raises:
        KeyError: the document is no plan.
        InputError: an unknown price basis or origin.
    """
    told = (document.get("receipt") or {}).get("selection") or document.get("supply")
    if told:
        return selection_from_json(told)
    fleet = document["fleet"]
    return Selection(
        providers=tuple(sorted({row["provider"] for row in fleet})),
        community=any(row.get("tier") == "community" for row in fleet),
    )


def reprice(
    document: Mapping[str, Any],
    supply: Supply,
    *,
    now: datetime,
    row_prices: Mapping[int, Decimal] | None = None,
) -> Repriced:
    """Look at a plan again.

    Args:
        document: the JSON contract ``spotfloor.plan/1``, of this or an earlier edition.
        supply: the offers of the plan's own selection and GPUs, now.
        row_prices: USD per instance-hour that the stored price rows of the receipt say today, by
            id; None = not looked up.

    Raises:
        InputError: the document is no plan.
    """
    opened = open_plan(document)
    workload = opened.workload
    now_rows, cost = _cost_now(document, workload, supply)
    keeps = _keeps_target(document, workload, [pool for _, pool in now_rows])
    best, trouble = _best(workload, supply, opened)
    usd = None if cost is None else cost.total
    best_usd = None if best is None else best.cost.total
    gaps = (
        document["receipt"]["relative_gap"],
        0.0 if best is None else best.receipt["relative_gap"],
    )
    still = _still_best(usd, best_usd, keeps, MIP_GAP + sum(gaps))
    told: dict[str, Any] = {
        "schema": SCHEMA,
        "plan_id": document["plan_id"],
        "at": iso(now),
        "summary": "",
        "receipt": {
            "intact": opened.intact,
            "hash": document["receipt"]["hash"],
            "recomputed": digest(document),
        },
        "reproduced": _reproduced(document, opened, row_prices),
        "then": {
            "usd_per_month": document["cost"]["usd_per_month"],
            "snapshot_id": document["snapshot_id"],
            "prices_as_of": document["prices_as_of"],
        },
        "now": {
            "usd_per_month": _text(usd),
            "change_usd_per_month": None
            if usd is None
            else plain(usd - Decimal(document["cost"]["usd_per_month"])),
            "snapshot_id": supply.snapshot_id,
            "prices_as_of": None if supply.prices_as_of is None else iso(supply.prices_as_of),
            "keeps_target": keeps,
            "fleet": [
                _row_now(number, row, pool, supply)
                for number, row, (_, pool) in zip(
                    document["receipt"]["offer_ids"], document["fleet"], now_rows, strict=True
                )
            ],
        },
        "best": None
        if best is None
        else {
            "plan_id": best.plan_id,
            "usd_per_month": plain(best.cost.total),
            "served_share": round(best.served_share, 6),
            "summary": best.summary,
        },
        "still_best": still,
        "saving_usd_per_month": None if usd is None or best_usd is None else plain(usd - best_usd),
        "moves": [] if best is None or still else moves(document, best),
        "warnings": warnings(document, opened, supply, now_rows, keeps, trouble, now),
    }
    told["summary"] = summary(told)
    return Repriced(document["plan_id"], now, usd, best_usd, still, told)


def _cost_now(
    document: Mapping[str, Any], workload: Workload, supply: Supply
) -> tuple[list[Now], Cost | None]:
    """The plan's own instance-hours at the prices of now."""
    found: list[Now] = []
    used: list[tuple[Pool, Decimal]] = []
    for number, row, hours in zip(
        document["receipt"]["offer_ids"], document["fleet"], fleet_hours(document), strict=True
    ):
        how, option = match(number, row, supply.options)
        pools = [] if option is None else make_pools(workload, [option])
        found.append((how if pools else "", pools[0] if pools else None))
        if pools:
            used.append((pools[0], hours))
    return found, cost_of_hours(workload, used) if len(used) == len(found) else None


def _keeps_target(
    document: Mapping[str, Any], workload: Workload, pools: Sequence[Pool | None]
) -> bool | None:
    """Whether the fleet still serves what was asked for, with all the stand-ins that there are.

    None where an offer of it is gone. Where no risk changed it does: the plan proved it.
    """
    here = [pool for pool in pools if pool is not None]
    if len(here) < len(pools):
        return None
    rows = document["fleet"]
    if all(
        (pool.option.hazard_per_hour, pool.option.drought_hours)
        == (row["hazard_per_hour"], row["drought_hours"])
        for pool, row in zip(here, rows, strict=True)
    ):
        return True
    market = make_market(workload, here, traffic_rate(workload))
    blocks = merge_blocks(workload)
    first = [blocks.slot.index(block) for block in range(len(blocks.demand))]
    total = np.array([[row["instances_by_hour"][hour] for hour in first] for row in rows])
    lost = (1 - market.availability()) @ (market.replicas[:, None] * total)
    stand_in = np.minimum(lost, room_for_stand_ins(market, workload.limits, total))
    missing = unserved(market, blocks, Counts(total, stand_in, 0.0))
    share, _ = served_share(market, blocks, missing)
    return share >= workload.availability - _SAME_SHARE


def _best(workload: Workload, supply: Supply, opened: Opened) -> tuple[Plan | None, str]:
    """The best plan of now, or why there is none."""
    try:
        return (
            solve_plan(
                workload,
                supply.options,
                snapshot_id=supply.snapshot_id,
                prices_as_of=supply.prices_as_of,
                left_out=supply.left_out,
                selection=opened.selection,
            ),
            "",
        )
    except PlanInfeasible as error:
        return None, str(error)


def _still_best(usd: Decimal | None, best: Decimal | None, keeps: bool | None, gap: float) -> bool:
    """Fleets nearer than the solver's proven gaps cannot be told apart."""
    if usd is None or keeps is False:
        return False
    return best is None or usd <= best * (1 + Decimal(repr(round(gap, 9))))


def _reproduced(
    document: Mapping[str, Any], opened: Opened, row_prices: Mapping[int, Decimal] | None
) -> dict[str, Any]:
    """Solve again over the receipt's own price rows, and hold them against the store."""
    told: dict[str, Any] = {
        "same_plan": None,
        "usd_per_month": None,
        "rows": 0,
        "rows_gone": None,
        "rows_changed": None,
        "note": "",
    }
    if opened.rows is None:
        told["note"] = "an older receipt, without price rows: it cannot be made again"
        return told
    told["rows"] = len(opened.rows)
    if row_prices is not None:
        stored = [row for row in opened.rows if row.price_row is not None]
        told["rows_gone"] = sum(row.price_row not in row_prices for row in stored)
        told["rows_changed"] = sum(
            row_prices.get(row.price_row or 0, row.usd_per_instance_hour)
            != row.usd_per_instance_hour
            for row in stored
            if row.price_basis == "latest"
        )
    try:
        again = solve_plan(
            opened.workload, opened.rows, snapshot_id=document["snapshot_id"], prices_as_of=None
        )
    except PlanInfeasible as error:
        told["same_plan"], told["note"] = False, f"no plan comes out: {error}"
        return told
    told["usd_per_month"] = plain(again.cost.total)
    told["same_plan"] = listed(again.to_json()) == listed(document)
    if not told["same_plan"]:
        gap = max(document["receipt"]["relative_gap"], again.receipt["relative_gap"])
        told["note"] = f"at {again.cost.total:,.0f} USD a month; both proven within {gap:.2%}"
        versions = document["receipt"]["versions"]
        if versions != again.receipt["versions"]:
            told["note"] += f"; made by other versions: {versions}"
    return told


def moves(document: Mapping[str, Any], best: Plan) -> list[dict[str, Any]]:
    """What the best fleet of now has more or less of, offer by offer."""
    then, after = listed(document), listed(best.to_json())
    return [
        {
            **dict(zip(("provider", "tier", "region", "zone", "instance_type", "gpu", "gpu_count",
                        "purchase_option"), key, strict=True)),
            "instances_max_then": max(then.get(key, (0,))),
            "instances_max_best": max(after.get(key, (0,))),
        }
        for key in sorted({*then, *after})
        if then.get(key) != after.get(key)
    ]  # fmt: skip


def _row_now(
    number: int, row: Mapping[str, Any], now: Pool | None, supply: Supply
) -> dict[str, Any]:
    option: SupplyOption | None = None if now is None else now.option
    usd = None if option is None else option.usd_per_instance_hour
    reason = ""
    if option is None:
        reason = supply.refused.get(number) or "no longer listed among the offers selected"
    then = Decimal(row["usd_per_instance_hour"])
    return {
        **{
            key: row[key]
            for key in ("provider", "region", "zone", "instance_type", "purchase_option")
        },
        "offer_id": number,
        "usd_per_instance_hour_then": row["usd_per_instance_hour"],
        "usd_per_instance_hour_now": _text(usd),
        "change": None if usd is None else round(float(usd / then) - 1, 6),
        "price_as_of": None if option is None else iso(option.price_as_of),
        "freshness": None if option is None else option.freshness,
        "missing": reason,
    }


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else plain(usd)
