"""A plan's receipt: all that is needed to check the plan, make it again and price it anew.

It holds what the offers were selected by, the price rows that the program saw (each with the id of
the stored row), and a hash over these, the inputs, the fleet, its cost and its service. The first
edition held less: no selection and no rows; it is still read.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import UTC, datetime
from decimal import Decimal
from importlib import metadata
from typing import Any

from core.errors import InputError
from core.market import EgressTariff, EgressTier
from core.money import plain
from optimizer.billing import BillingRule
from optimizer.choice import Chosen, traffic_rate
from optimizer.lives import Life
from optimizer.market import SupplyOption
from optimizer.pools import Pool
from optimizer.selection import Selection, selection_from_json
from optimizer.slot_risk import PRIOR_STAND_IN_SUCCESS
from optimizer.workload import Limits, Workload

VERSION = 2
PLAN = "spotfloor.plan/1"

_TOLD_ONLY = frozenset(
    {
        "price_as_of", "source_url", "freshness", "availability", "egress",
        "hazard_basis", "hazard_interval", "hazard_losses", "hazard_hours",
        "drought_basis", "drought_interval",
    }
)  # fmt: skip
"""What an offer says to people but not to the program; the traffic tariff stands apart."""

_THEN = datetime(1970, 1, 1, tzinfo=UTC)
"""Stands for the age of a price, which the receipt does not keep: it changes nothing."""


def evidence(workload: Workload, chosen: Chosen, pools: Sequence[Pool]) -> list[SupplyOption]:
    """The offers that decide the plan: solving over them alone gives the same fleet.

    These are the pools of the program, those that the simple fleets take, and the on-demand
    machines that kept a spot one of these out of the program.
    """
    found = {pool.option.offer_id: pool.option for pool in chosen.market.pools}
    for item in chosen.compared:
        found.update((pool.option.offer_id, pool.option) for pool in item.market.pools)
    rate = traffic_rate(workload)
    firm = [pool for pool in pools if not pool.option.is_spot]
    machines = {_machine(option) for option in found.values() if option.is_spot}
    found.update(
        (pool.option.offer_id, pool.option) for pool in firm if _machine(pool.option) in machines
    )
    if firm:
        cheapest = min(
            firm, key=lambda pool: pool.usd_per_replica_hour + rate * pool.egress_usd_per_gb
        )
        found[cheapest.option.offer_id] = cheapest.option
    return [found[number] for number in sorted(found)]


def _machine(option: SupplyOption) -> tuple[object, ...]:
    return (option.provider, option.region, option.gpu, option.gpu_count)


def make_receipt(
    document: Mapping[str, Any],
    *,
    offer_ids: Sequence[int],
    rows: Sequence[SupplyOption],
    selection: Selection | None,
    facts: Mapping[str, Any],
) -> dict[str, Any]:
    """Write the receipt of a plan.

    Args:
        document: the plan without it.
        offer_ids: of the fleet, in its order.
        rows: the offers that decided the plan.
        facts: counts of what was considered, and the proven gap.
    """
    with_traffic = document["inputs"]["egress_gb_per_month"] > 0
    tariffs = list(
        {row.egress.key: row.egress for row in rows if with_traffic and row.egress}.values()
    )
    receipt: dict[str, Any] = {
        "version": VERSION,
        "offer_ids": list(offer_ids),
        **facts,
        "selection": None if selection is None else selection.to_json(),
        "rows": [
            {
                **_row_to_json(row),
                **({"tariff": tariffs.index(row.egress)} if row.egress in tariffs else {}),
            }
            for row in rows
        ],
        "tariffs": [_tariff_to_json(tariff) for tariff in tariffs],
        "solver": "HiGHS (scipy.optimize.milp)",
        "versions": {
            "spotfloor": metadata.version("spotfloor"),
            "scipy": metadata.version("scipy"),
        },
        "assumptions": [
            "a month has 730 hours; list prices without tax",
            "spot lives are exponential; droughts hit a zone as a whole",
            "planned on-demand instances can be had; a stand-in for lost spot in"
            f" {PRIOR_STAND_IN_SUCCESS:.0%} of the cases",
            "scaling by the hour is free of charge beyond the hours run",
        ],
    }
    return {"hash": digest({**document, "receipt": receipt}), **receipt}


def digest(document: Mapping[str, Any]) -> str:
    """SHA-256 over what a plan's document rests on and says, in hexadecimal.

    Raises:
        KeyError: a part is missing.
    """
    receipt = document["receipt"]
    edition = receipt.get("version", 1)
    offers = []
    for number, row in zip(receipt["offer_ids"], document["fleet"], strict=True):
        offer = {
            "offer": number,
            "usd_per_hour": row["usd_per_instance_hour"],
            "instances_by_hour": row["instances_by_hour"],
        }
        if edition > 1:
            offer["hours_per_month"] = row["hours_per_month"]
        offers.append(offer)
    content = {
        "inputs": document["inputs"],
        "snapshot_id": document["snapshot_id"],
        "offers": offers,
    }
    if edition > 1:
        content["cost"], content["service"] = document["cost"], document["service"]
        for name in ("version", "selection", "rows", "tariffs"):
            content[name] = receipt[name]
    text = json.dumps(content, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class Opened:
    """A plan's document, read back.

    Attributes:
        intact: the hash is that of the content, and the plan's id is its beginning.
        selection: None where the receipt names none.
        rows: the offers that decided the plan; None where the receipt holds none.
    """

    workload: Workload
    intact: bool
    selection: Selection | None
    rows: tuple[SupplyOption, ...] | None


def open_plan(document: object) -> Opened:
    """Read a plan's document back.

    Raises:
        InputError: it is no plan, or one of its values is unusable.
    """
    if not isinstance(document, Mapping) or document.get("schema") != PLAN:
        raise InputError(f"no plan: give a JSON document of {PLAN}, as 'plan solve --json' prints")
    try:
        receipt = document["receipt"]
        intact = receipt["hash"] == digest(document) and receipt["hash"].startswith(
            document["plan_id"]
        )
        _check_figures(document)
        chosen = receipt.get("selection")
        rows = receipt.get("rows")
        tariffs = [_tariff_from_json(item) for item in receipt.get("tariffs") or ()]
        return Opened(
            workload_from_json(document["inputs"]),
            bool(intact) and bool(document["plan_id"]),
            None if chosen is None else selection_from_json(chosen),
            None if rows is None else tuple(_row_from_json(row, tariffs) for row in rows),
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError, IndexError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"no plan that can be read: {type(error).__name__} at {error}; give the document as"
            " 'plan solve --json' printed it"
        ) from None


def _check_figures(document: Mapping[str, Any]) -> None:
    """Meet here, once, what later looks rely on."""
    for name in ("snapshot_id", "prices_as_of"):
        document[name]
    for name in ("usd_per_month", "compute_usd_per_month", "preemption_usd_per_month"):
        Decimal(document["cost"][name])
    float(document["receipt"]["relative_gap"])
    dict(document["receipt"]["versions"])
    hours = len(document["inputs"]["demand_replicas_by_hour"])
    for row in document["fleet"]:
        for name in ("provider", "tier", "region", "zone", "instance_type", "gpu"):
            if not isinstance(row[name], str):
                raise ValueError(name)
        if row["purchase_option"] not in {"on_demand", "spot"} or int(row["gpu_count"]) < 1:
            raise ValueError("purchase_option or gpu_count")
        counts = [*row["instances_by_hour"], row["instances_max"]]
        if len(counts) != hours + 1 or not all(isinstance(n, int) and n >= 0 for n in counts):
            raise ValueError("instances_by_hour")
        positive = [Decimal(row["usd_per_instance_hour"]), Decimal(row.get("hours_per_month", "1"))]
        risks = [float(row["hazard_per_hour"]), float(row["drought_hours"])]
        if not all(value.is_finite() and value > 0 for value in positive):
            raise ValueError("usd_per_instance_hour or hours_per_month")
        if not all(math.isfinite(value) and value >= 0 for value in risks):
            raise ValueError("hazard_per_hour or drought_hours")


def workload_from_json(inputs: Mapping[str, Any]) -> Workload:
    """Read a plan's ``inputs`` back; what an older edition did not know keeps its default.

    Raises:
        InputError: a value is unusable.
        KeyError, TypeError, ValueError: one is missing, or is of a newer edition that is not known
            here: to leave it out would answer another question.
    """
    values = dict(inputs)
    demand = tuple(float(value) for value in values.pop("demand_replicas_by_hour"))
    gpus, limits = tuple(values.pop("gpus")), Limits(**values.pop("limits"))
    return Workload(demand=demand, gpus=gpus, limits=limits, **values)


def _row_to_json(option: SupplyOption) -> dict[str, Any]:
    row: dict[str, Any] = {}
    for field in fields(option):
        value = getattr(option, field.name)
        if field.name in _TOLD_ONLY or (field.default is not MISSING and value == field.default):
            continue
        if isinstance(value, Decimal):
            value = plain(value)
        elif field.name == "droughts_seen":
            value = [[life.hours, life.lost] for life in value]
        elif isinstance(value, BillingRule):
            value = asdict(value)
        row[field.name] = value
    return row


def _row_from_json(row: Mapping[str, Any], tariffs: Sequence[EgressTariff]) -> SupplyOption:
    values: dict[str, Any] = {}
    for field in fields(SupplyOption):
        value = row.get(field.name)
        if value is None or field.name in _TOLD_ONLY:
            continue
        if "Decimal" in str(field.type):
            value = Decimal(str(value))
        elif field.name == "droughts_seen":
            value = tuple(Life(hours, lost) for hours, lost in value)
        elif field.name == "billing":
            value = BillingRule(**value)
        values[field.name] = value
    tariff = row.get("tariff")
    return SupplyOption(
        **values,
        price_as_of=_THEN,
        source_url="",
        egress=None if tariff is None else tariffs[tariff],
    )


def _tariff_to_json(tariff: EgressTariff) -> dict[str, Any]:
    def number(value: Decimal | None) -> str | None:
        return None if value is None else plain(value)

    return {
        "provider": tariff.provider,
        "region": tariff.region,
        "network_tier": tariff.network_tier,
        "destination": tariff.destination,
        "unit": tariff.unit,
        "free_gb_per_month": plain(tariff.free_gb_per_month),
        "tiers": [
            [plain(tier.from_gb), number(tier.to_gb), number(tier.usd_per_gb)]
            for tier in tariff.tiers
        ],
    }


def _tariff_from_json(data: Mapping[str, Any]) -> EgressTariff:
    def number(value: str | None) -> Decimal | None:
        return None if value is None else Decimal(value)

    names = ("provider", "region", "network_tier", "destination", "unit")
    return EgressTariff(
        **{name: data[name] for name in names},
        free_gb_per_month=Decimal(data["free_gb_per_month"]),
        tiers=tuple(
            EgressTier(Decimal(low), number(high), number(usd)) for low, high, usd in data["tiers"]
        ),
        source_url="",
        observed_at=_THEN,
    )
