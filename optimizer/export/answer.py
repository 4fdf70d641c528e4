"""A plan's answer as the exports read it, checked: it may come from a file that was edited."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import InputError
from core.market import ANYWHERE, LONGEST_NAME
from optimizer import models

SCHEMA = "spotfloor.plan/1"
MOST = 1_000_000
"""Most instances, GPUs or replicas that a count may say."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What a target wrote.

    Attributes:
        notes: what the target cannot express, and what is left to do by hand.
    """

    text: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One pool of the fleet.

    Attributes:
        region, zone: "" = not said.
        replicas: replicas of the model that one instance holds.
        by_hour: instances wanted in each hour of the profile.
        stand_ins: instances beyond those, for the time in which spot is lost.
    """

    provider: str
    tier: str
    region: str
    zone: str
    instance_type: str
    gpu: str
    gpu_count: int
    replicas: int
    spot: bool
    role: str
    by_hour: tuple[int, ...]
    stand_ins: int
    usd_per_hour: str

    @property
    def place(self) -> str:
        """Where it runs, for people."""
        return f"{self.provider} {self.zone or self.region or 'any region'}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """A plan, as far as exports need it.

    Attributes:
        model: repository of the model where the plan's name is one of our catalogue, else "".
        demand: replicas needed in each hour, without headroom.
        requests_per_second: of one replica; None = the plan does not know it.
    """

    plan_id: str
    name: str
    model: str
    snapshot_id: str
    prices_as_of: str
    usd_per_month: str
    served_share: float
    demand: tuple[float, ...]
    requests_per_second: float | None
    gpus_per_replica: int
    reload_minutes: float
    rows: tuple[Row, ...]

    @property
    def on_demand(self) -> tuple[Row, ...]:
        """The rows that cannot be taken back."""
        return tuple(row for row in self.rows if not row.spot)

    @property
    def spot(self) -> tuple[Row, ...]:
        """The rows that the provider may take back."""
        return tuple(row for row in self.rows if row.spot)

    @property
    def stand_ins(self) -> int:
        """Instances that stand in for lost spot."""
        return sum(row.stand_ins for row in self.rows)

    def per_hour(
        self, rows: Sequence[Row], size: Callable[[Row], int] = lambda _: 1
    ) -> tuple[int, ...]:
        """Sum of the rows in each hour, in instances or in what ``size`` counts of one."""
        return tuple(
            sum(row.by_hour[hour] * size(row) for row in rows) for hour in range(len(self.demand))
        )

    @property
    def slug(self) -> str:
        """The name as DNS labels, dstack and Terraform take it: 2 to 40 of a-z, 0-9 and -."""
        words = re.sub(r"[^a-z0-9]+", "-", self.name.lower()).strip("-")
        words = words if words[:1].isalpha() and len(words) > 1 else f"fleet-{words}"
        return words[:40].strip("-")


def read_answer(answer: Mapping[str, Any]) -> Fleet:
    """Read what ``plan solve --json`` prints.

    Raises:
        InputError: it is no plan, or a value of it cannot be; the message names the key.
    """
    if not isinstance(answer, Mapping) or answer.get("schema") != SCHEMA:
        found = answer.get("schema") if isinstance(answer, Mapping) else type(answer).__name__
        raise InputError(
            f"schema {found!r}: no plan; give what 'spotfloor plan solve --json' prints"
        )
    _check_text_of_all(answer)
    inputs, cost, service = (_part(answer, key) for key in ("inputs", "cost", "service"))
    demand = tuple(
        _number(value, f"inputs.demand_replicas_by_hour[{hour}]")
        for hour, value in enumerate(_list(inputs, "demand_replicas_by_hour"))
    )
    if len(demand) not in {24, 168}:
        raise InputError(f"inputs.demand_replicas_by_hour: {len(demand)} values; 24 or 168 are due")
    name = one_line(str(inputs.get("name", "")))
    rate = inputs.get("requests_per_second_per_replica")
    rows = tuple(
        _row(value, f"fleet[{k}]", len(demand)) for k, value in enumerate(_list(answer, "fleet"))
    )
    if not any(any(row.by_hour) for row in rows):
        raise InputError("fleet: no instance in any hour; solve the plan again")
    return Fleet(
        plan_id=_text(answer, "plan_id"),
        name=name[:LONGEST_NAME] or "fleet",
        model=name if name in models.catalogue() else "",
        snapshot_id=_text(answer, "snapshot_id"),
        prices_as_of=one_line(str(answer.get("prices_as_of") or "an unknown time")),
        usd_per_month=_text(cost, "usd_per_month", "cost."),
        served_share=_number(service.get("served_share"), "service.served_share"),
        demand=demand,
        requests_per_second=None
        if rate is None
        else _number(rate, "inputs.requests_per_second_per_replica"),
        gpus_per_replica=_count(inputs.get("gpus_per_replica"), "inputs.gpus_per_replica", 1),
        reload_minutes=_number(inputs.get("reload_minutes"), "inputs.reload_minutes"),
        rows=rows,
    )


def one_line(text: str) -> str:
    """Text that fits a comment: line ends and what cannot be printed become blanks."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def header(fleet: Fleet, notes: Sequence[str]) -> str:
    """The comment on top of an export: which plan, which prices, what to mind."""
    lines = [
        f"Spotfloor plan {fleet.plan_id}: {fleet.name}",
        f"Prices {fleet.snapshot_id} of {fleet.prices_as_of}: {fleet.usd_per_month} USD a month,"
        f" {fleet.served_share:.2%} of the demand served.",
        "Check it before you apply it.",
        *(f"Note: {note}" for note in notes),
    ]
    return "".join(f"# {one_line(line)}\n" for line in lines)


def _row(value: object, where: str, hours: int) -> Row:
    if not isinstance(value, Mapping):
        raise InputError(f"{where}: no object; solve the plan again")
    by_hour = tuple(
        _count(count, f"{where}.instances_by_hour[{hour}]")
        for hour, count in enumerate(_list(value, "instances_by_hour", f"{where}."))
    )
    if len(by_hour) != hours:
        raise InputError(f"{where}.instances_by_hour: {len(by_hour)} values, not {hours}")
    most = _count(value.get("instances_max"), f"{where}.instances_max")
    if most < max(by_hour):
        raise InputError(f"{where}.instances_max {most}: below the {max(by_hour)} of an hour")
    option = value.get("purchase_option")
    if option not in {"spot", "on_demand"}:
        raise InputError(f"{where}.purchase_option {option!r}: write spot or on_demand")
    gpus = _number(value.get("gpu_count"), f"{where}.gpu_count")
    if gpus != int(gpus) or gpus < 1:
        raise InputError(f"{where}.gpu_count {gpus:g}: must be a whole number of at least 1")
    texts = {
        name: _text(value, name, f"{where}.") for name in ("provider", "instance_type", "gpu")
    } | {
        name: _text(value, name, f"{where}.", empty=True)
        for name in ("tier", "region", "zone", "role", "usd_per_instance_hour")
    }
    return Row(
        provider=texts["provider"],
        tier=texts["tier"],
        region="" if texts["region"] == ANYWHERE else texts["region"],
        zone=texts["zone"],
        instance_type=texts["instance_type"],
        gpu=texts["gpu"],
        gpu_count=int(gpus),
        replicas=_count(value.get("replicas_per_instance"), f"{where}.replicas_per_instance", 1),
        spot=option == "spot",
        role=texts["role"],
        by_hour=by_hour,
        stand_ins=most - max(by_hour),
        usd_per_hour=texts["usd_per_instance_hour"],
    )


def _part(answer: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = answer.get(key)
    if not isinstance(value, Mapping):
        raise InputError(f"{key}: missing or no object; solve the plan again")
    return value


def _list(holder: Mapping[str, Any], key: str, where: str = "") -> list[Any]:
    value = holder.get(key)
    if not isinstance(value, list) or not value:
        raise InputError(f"{where}{key}: missing, empty or no list; solve the plan again")
    return value


def _text(holder: Mapping[str, Any], key: str, where: str = "", *, empty: bool = False) -> str:
    value = holder.get(key)
    if not isinstance(value, str) or not (value or empty):
        raise InputError(f"{where}{key} {value!r}: no text; solve the plan again")
    if len(value) > LONGEST_NAME or not value.isprintable():
        raise InputError(f"{where}{key} {value[:60]!r}: longer than {LONGEST_NAME} or unprintable")
    return value


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InputError(f"{where} {value!r}: no number; solve the plan again")
    if not 0 <= value <= 1e12:
        raise InputError(f"{where} {value}: must be a number of at least 0")
    return float(value)


def _count(value: object, where: str, least: int = 0) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= MOST:
        raise InputError(f"{where} {value!r}: must be a whole number from {least} to {MOST}")
    return value


def _check_text_of_all(answer: Mapping[str, Any]) -> None:
    """Refuse what no text file can hold: half characters, NaN, things that JSON has not."""
    try:
        json.dumps(answer, ensure_ascii=False, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InputError(f"plan: cannot be written as JSON ({error}); solve it again") from None
