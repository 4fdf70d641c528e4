"""An AWS fleet as a Terraform file: one Auto Scaling group with a mixed-instances policy.

The group's size is set by the hour with scheduled actions. On-demand instances beyond the base are
a fixed share of what is above it: the plan's share in its busiest hour.
"""

from __future__ import annotations

import math

from core.errors import InputError
from optimizer.export.answer import Draft, Fleet, Row, header
from optimizer.export.cards import other_tier_notes
from optimizer.export.shape import MOST_EXTRA, one_region, only_provider
from optimizer.export.writing import Block, Raw, hcl_text

MOST_TYPES = 40
MOST_ACTIONS = 125
MOST_WEIGHT = 999
"""Quotas of EC2 Auto Scaling for one group: overrides, scheduled actions, weight of an override."""


def render(fleet: Fleet) -> Draft:
    """Write variables, launch template, group and schedule.

    Raises:
        InputError: a row outside AWS, several regions, or more instance types than a group takes.
    """
    only_provider(fleet, "aws", "terraform", "plan again with --provider aws, or export skyserve")
    region = one_region(fleet, "terraform")
    types: dict[str, Row] = {}
    for row in fleet.rows:
        types.setdefault(row.instance_type, row)
    if len(types) > MOST_TYPES:
        raise InputError(
            f"terraform: {len(types)} instance types, a group takes {MOST_TYPES}; plan again with"
            " fewer --gpu"
        )
    weighted = len({row.replicas for row in fleet.rows}) > 1
    if weighted and max(row.replicas for row in fleet.rows) > MOST_WEIGHT:
        raise InputError(f"terraform: a weight above {MOST_WEIGHT} replicas; plan again")
    total = _capacity(fleet, fleet.rows, weighted)
    base, percent = _share_on_demand(fleet, weighted, total)
    notes = _notes(fleet, weighted)
    notes += _share_note(_capacity(fleet, fleet.on_demand, weighted), total, base, percent)
    actions = _actions(total)
    if len(actions) > MOST_ACTIONS:
        notes.append(
            f"the plan changes size {len(actions)} times a week, a group takes {MOST_ACTIONS}"
            f" scheduled actions: it is left between {min(total)} and {max(total)} for you to scale"
        )
        actions = []
    blocks = [*_settings(region), *_variables(fleet, scheduled=bool(actions)), _template()]
    blocks.append(
        _group(
            fleet, list(types.values()), weighted, total, (base, percent), scheduled=bool(actions)
        )
    )
    blocks += actions
    return Draft(header(fleet, notes) + "\n" + hcl_text(blocks), tuple(notes))


def _notes(fleet: Fleet, weighted: bool) -> list[str]:
    notes = ["give ami_id and user_data that start your model server", *other_tier_notes(fleet)]
    if weighted:
        notes.append("capacity counts replicas, as the instance types hold different numbers")
    if len({row.instance_type for row in fleet.rows}) > 1:
        notes.append("AWS chooses among the instance types, on demand and spot alike")
    zones = sorted({row.zone for row in fleet.rows if row.zone})
    if zones:
        notes.append(f"give subnets in {', '.join(zones)}; counts per zone are evened out")
    if fleet.spot and fleet.stand_ins:
        notes.append(
            f"the {fleet.stand_ins} on-demand stand-ins of the plan are not expressed: a group"
            " waits for spot to come back, so less than planned is served meanwhile"
        )
    if len(fleet.demand) == 168:
        notes.append("the first hour of the plan's week is taken as Monday 00:00")
    return notes


def _capacity(fleet: Fleet, rows: tuple[Row, ...], weighted: bool) -> tuple[int, ...]:
    return fleet.per_hour(rows, lambda row: row.replicas if weighted else 1)


def _settings(region: str) -> list[Block]:
    source = {"source": "hashicorp/aws", "version": ">= 5.0"}
    where: object = region or Raw("var.region")
    blocks = [
        Block("terraform", (), [Block("required_providers", (), [("aws", source)])]),
        Block("provider", ("aws",), [("region", where)]),
    ]
    if not region:
        blocks.append(_variable("region", "string", "Region; the plan names none"))
    return blocks


def _variables(fleet: Fleet, *, scheduled: bool) -> list[Block]:
    blocks = [
        _variable("ami_id", "string", "Image with driver and model server"),
        _variable("subnet_ids", "list(string)", "Subnets, one in each zone of the plan"),
        _variable("user_data", "string", "Start script, base64", ("default", Raw("null"))),
    ]
    if scheduled:
        zone = ("default", "Etc/UTC")
        blocks.append(_variable("time_zone", "string", "Zone of the plan's hours (IANA)", zone))
    return blocks


def _variable(name: str, kind: str, about: str, *more: tuple[str, object]) -> Block:
    return Block("variable", (name,), [("type", Raw(kind)), ("description", about), *more])


def _template() -> Block:
    body: list[tuple[str, object] | Block] = [
        ("name_prefix", "spotfloor-"),
        ("image_id", Raw("var.ami_id")),
        ("user_data", Raw("var.user_data")),
    ]
    return Block("resource", ("aws_launch_template", "fleet"), body)


def _group(
    fleet: Fleet,
    types: list[Row],
    weighted: bool,
    total: tuple[int, ...],
    share: tuple[int, int],
    *,
    scheduled: bool,
) -> Block:
    overrides = []
    for row in types:
        override: list[tuple[str, object] | Block] = [("instance_type", row.instance_type)]
        if weighted:
            override.append(("weighted_capacity", str(row.replicas)))
        overrides.append(Block("override", (), override))
    specification = Block(
        "launch_template_specification",
        (),
        [("launch_template_id", Raw("aws_launch_template.fleet.id")), ("version", "$Latest")],
    )
    policy = Block(
        "mixed_instances_policy",
        (),
        [
            _distribution(*share),
            Block("launch_template", (), [specification, *overrides]),
        ],
    )
    body: list[tuple[str, object] | Block] = [
        ("name", f"spotfloor-{fleet.slug}"),
        ("min_size", min(total)),
        ("max_size", max(total)),
        ("desired_capacity", max(total)),
        ("vpc_zone_identifier", Raw("var.subnet_ids")),
        ("capacity_rebalance", bool(fleet.spot)),
        ("health_check_grace_period", math.ceil(60 * fleet.reload_minutes)),
        ("default_instance_warmup", math.ceil(60 * fleet.reload_minutes)),
        policy,
        _tag("spotfloor:plan", fleet.plan_id),
        _tag("Name", fleet.name),
    ]
    if scheduled:
        changes = Raw("[desired_capacity, min_size, max_size]")
        body.append(Block("lifecycle", (), [("ignore_changes", changes)]))
    return Block("resource", ("aws_autoscaling_group", "fleet"), body)


def _share_on_demand(fleet: Fleet, weighted: bool, total: tuple[int, ...]) -> tuple[int, int]:
    """Base and percent on demand above it, as in the busiest hour.

    4 of base, 6 on demand of 12 at the peak: (6 - 4) / (12 - 4) = 25 %.
    """
    if not fleet.spot:
        return 0, 100
    steady = _capacity(fleet, fleet.on_demand, weighted)
    base, peak = min(steady), total.index(max(total))
    above = total[peak] - base
    # Upwards: a share that is rounded down would serve less than was promised.
    return base, math.ceil(100 * (steady[peak] - base) / above) if above else 0


def _share_note(
    steady: tuple[int, ...], total: tuple[int, ...], base: int, percent: int
) -> list[str]:
    """Say how the one share differs from the plan's hours.

    Raises:
        InputError: it buys far less or far more on demand than the plan.
    """
    bought = [base + math.ceil((size - base) * percent / 100) for size in total]
    if tuple(bought) == steady:  # also the fleet that is all spot
        return []
    ratio = sum(bought) / sum(steady)
    if not 1 / (1 + MOST_EXTRA) <= ratio <= 1 + MOST_EXTRA:
        raise InputError(
            "terraform: a group keeps one share on demand at all hours; the busiest hour's would"
            f" buy {sum(bought)} hours of capacity on demand where the plan has {sum(steady)};"
            " plan again with --min-on-demand-share, or export csv-hourly, which keeps every hour"
        )
    fewer = sum(has < wanted for has, wanted in zip(bought, steady, strict=True))
    return [
        f"on demand above the base keeps the share of the busiest hour: {sum(bought)} hours of"
        f" capacity on demand where the plan has {sum(steady)}"
        + (f", fewer than planned in {fewer} of them" if fewer else "")
    ]


def _distribution(base: int, percent: int) -> Block:
    body: list[tuple[str, object] | Block] = [
        ("on_demand_base_capacity", base),
        ("on_demand_percentage_above_base_capacity", percent),
        ("spot_allocation_strategy", "price-capacity-optimized"),
    ]
    return Block("instances_distribution", (), body)


def _tag(key: str, value: str) -> Block:
    return Block("tag", (), [("key", key), ("value", value), ("propagate_at_launch", True)])


def _actions(total: tuple[int, ...]) -> list[Block]:
    """One scheduled action for each hour in which the size changes; none for a steady fleet."""
    blocks = []
    for slot, size in enumerate(total):
        if size == total[slot - 1]:
            continue
        day, hour = divmod(slot, 24)
        weekday = "*" if len(total) == 24 else str((day + 1) % 7)  # cron: 0 = Sunday
        name = f"hour-{slot:03d}"
        body: list[tuple[str, object] | Block] = [
            ("scheduled_action_name", name),
            ("autoscaling_group_name", Raw("aws_autoscaling_group.fleet.name")),
            ("recurrence", f"0 {hour} * * {weekday}"),
            ("time_zone", Raw("var.time_zone")),
            ("min_size", size),
            ("max_size", max(total)),
            ("desired_capacity", size),
        ]
        blocks.append(Block("resource", ("aws_autoscaling_schedule", name), body))
    return blocks
