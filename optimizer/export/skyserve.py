"""A fleet as a SkyServe service (SkyPilot)."""

from __future__ import annotations

import math

from core.errors import InputError
from optimizer.engine_flags import VLLM_VERSION
from optimizer.export.answer import Draft, Fleet, Row, header
from optimizer.export.cards import (
    SKYPILOT_CLOUDS,
    cloud_of,
    model_note,
    other_tier_notes,
    place_names,
    place_notes,
    serve_command,
    skypilot_card,
)
from optimizer.export.shape import peak_rate_share, require_near, scaled, scaler_note
from optimizer.export.skyserve_rules import check
from optimizer.export.writing import yaml_documents

__all__ = ["check", "render"]

_TYPES_AS_OURS = ("aws", "gcp", "azure")
"""Clouds whose instance types SkyPilot names as the provider does, and so do we."""

LEAST_DELAY_SECONDS = 600


def render(fleet: Fleet) -> Draft:
    """Write the service.

    Raises:
        InputError: a provider or card that SkyPilot has not, instances of different size, or a
            range of replicas without a known rate.
    """
    if len({(row.replicas, row.gpu_count) for row in fleet.rows}) > 1:
        raise InputError(
            "skyserve: one command serves on all instances, and they differ in GPUs or replicas;"
            " plan again with --max-gpus or one --gpu, or export csv"
        )
    command = serve_command(fleet, fleet.rows[0], "skyserve")
    total = fleet.per_hour(fleet.rows)
    least, most = max(1, min(total)), max(total)
    notes = [
        model_note(fleet, "pass the model with --env MODEL=ORG/NAME"),
        *place_notes(fleet),
        *other_tier_notes(fleet),
    ]
    resources = _resources(fleet)
    if "any_of" in resources:
        notes.append(
            "SkyServe chooses among the places by price and stock: how many instances run in each"
            " is not kept"
        )
    policy: dict[str, object] = {"min_replicas": least, "max_replicas": most}
    if least != most:
        target = peak_rate_share(fleet, total, "skyserve")
        policy["target_qps_per_replica"] = target
        run = scaled(fleet, total, target)
        require_near(total, run, "skyserve")
        notes.append(scaler_note(total, run, "all instances"))
    if not min(total):
        notes.append(
            "the plan runs nothing in some hours; one instance stays up, or the first request"
            " would wait for a cold start"
        )
    if fleet.spot:
        _spot_policy(fleet, policy, notes)
    delay = max(LEAST_DELAY_SECONDS, math.ceil(180 * fleet.reload_minutes))
    document = {
        "name": fleet.slug,
        "service": {
            "readiness_probe": {"path": "/health", "initial_delay_seconds": delay},
            "replica_policy": policy,
        },
        "resources": resources,
        "envs": {"MODEL": fleet.model or None},
        "setup": f"pip install vllm=={VLLM_VERSION}",
        "run": command,
    }
    return Draft(header(fleet, notes) + yaml_documents(document), tuple(notes))


def _spot_policy(fleet: Fleet, policy: dict[str, object], notes: list[str]) -> None:
    base = fleet.per_hour(fleet.on_demand)
    policy["base_ondemand_fallback_replicas"] = min(base)
    policy["dynamic_ondemand_fallback"] = fleet.stand_ins > 0
    if max(base) != min(base):
        notes.append(
            f"on demand the plan runs {min(base)} to {max(base)} instances by the hour; SkyServe"
            f" keeps {min(base)} and runs the rest on spot"
        )
    if fleet.stand_ins:
        notes.append(
            f"the plan lets {fleet.stand_ins} on-demand instances stand in for lost spot; SkyServe"
            " replaces every spot instance that is not ready"
        )


def _resources(fleet: Fleet) -> dict[str, object]:
    places: list[dict[str, object]] = []
    for row in fleet.rows:
        if (place := _place(row)) not in places:
            places.append(place)
    more: dict[str, object] = {"use_spot": bool(fleet.spot), "ports": 8000}
    if len(places) == 1:
        return {**places[0], **more}
    return {**more, "any_of": places}


def _place(row: Row) -> dict[str, object]:
    place: dict[str, object] = {"cloud": cloud_of(row, SKYPILOT_CLOUDS, "skyserve")}
    region, zone = place_names(row)
    if region:
        place["region"] = region
    if zone:
        place["zone"] = zone
    place["accelerators"] = f"{skypilot_card(row)}:{row.gpu_count}"
    if row.provider in _TYPES_AS_OURS:
        place["instance_type"] = row.instance_type
    return place
