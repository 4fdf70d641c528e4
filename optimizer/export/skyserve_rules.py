"""The rules that a SkyServe file must keep, and that make it do what a hybrid plan promised.

Rules between fields as SkyPilot states them: ``replicas`` and ``replica_policy`` exclude each
other; a range of replicas needs ``target_qps_per_replica``, and that needs ``max_replicas``; the
on-demand base is part of ``min_replicas``; only ``use_spot: true`` makes the rest spot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from core.errors import InputError
from optimizer.export.cards import SKYPILOT_CLOUDS
from optimizer.export.writing import read_yaml

_POLICY_KEYS = {
    "min_replicas", "max_replicas", "target_qps_per_replica", "num_overprovision",
    "base_ondemand_fallback_replicas", "dynamic_ondemand_fallback", "spot_placer",
    "upscale_delay_seconds", "downscale_delay_seconds",
}  # fmt: skip
_COUNTS = ("min_replicas", "max_replicas", "base_ondemand_fallback_replicas", "num_overprovision")


def check(text: str, *, floor: int | None = None) -> dict[str, Any]:
    """Check a service file.

    Args:
        floor: instances that must run at all times; None = do not ask.

    Returns:
        The document.

    Raises:
        InputError: a rule is broken; the message names the field and what to write.
    """
    documents = read_yaml(text, "skyserve")
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError("skyserve: not one mapping; a service file is one YAML document")
    document: dict[str, Any] = documents[0]
    service, resources = document.get("service"), document.get("resources")
    if not isinstance(service, dict):
        raise InputError("service: missing; without it this is a task, not a service")
    if not isinstance(resources, dict):
        raise InputError("resources: missing; name accelerators and cloud")
    if not isinstance(document.get("run"), str) or not document["run"].strip():
        raise InputError("run: missing; nothing would serve")
    _check_probe(service.get("readiness_probe"))
    policy = _check_policy(service)
    base, low = policy.get("base_ondemand_fallback_replicas", 0), policy["min_replicas"]
    mixed = base > 0 or policy.get("dynamic_ondemand_fallback", False)
    if mixed and resources.get("use_spot") is not True:
        raise InputError(
            "resources.use_spot: missing or false, so every replica runs on demand and the price of"
            " a hybrid fleet is false; write use_spot: true"
        )
    if low < base:
        raise InputError(
            f"min_replicas {low}: below the on-demand base of {base}, which is part of it;"
            f" write at least {base}"
        )
    if floor is not None and low < floor:
        raise InputError(f"min_replicas {low}: below the floor of {floor}; write {floor}")
    _check_resources(resources)
    return document


def _check_probe(probe: object) -> None:
    path = probe.get("path") if isinstance(probe, Mapping) else probe
    if not isinstance(path, str) or not path.startswith("/"):
        raise InputError(f"readiness_probe.path {path!r}: must begin with a slash, e.g. /health")


def _check_policy(service: Mapping[str, Any]) -> dict[str, Any]:
    policy, fixed = service.get("replica_policy"), service.get("replicas")
    if policy is not None and fixed is not None:
        raise InputError("replicas and replica_policy exclude each other; leave out replicas")
    if policy is None:
        policy = {"min_replicas": fixed}
    if not isinstance(policy, dict):
        raise InputError("replica_policy: no mapping")
    if unknown := sorted(str(key) for key in set(policy) - _POLICY_KEYS):
        raise InputError(f"replica_policy.{unknown[0]}: SkyServe knows no such field")
    if policy.get("min_replicas") is None:
        raise InputError("replica_policy.min_replicas: missing")
    for key in _COUNTS:
        value = policy.get(key, 0)
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            raise InputError(f"replica_policy.{key} {value!r}: write a whole number of at least 0")
    low, high = policy["min_replicas"], policy.get("max_replicas")
    if high is not None and high < low:
        raise InputError(f"max_replicas {high}: below min_replicas {low}; exchange them")
    target = policy.get("target_qps_per_replica")
    if target is None and high not in {None, low}:
        raise InputError(
            f"target_qps_per_replica: missing for a range of {low} to {high} replicas;"
            " write the requests/s that one replica serves"
        )
    if target is not None:
        if isinstance(target, bool) or not isinstance(target, int | float) or not target > 0:
            raise InputError(f"target_qps_per_replica {target!r}: write a number above 0")
        if high is None:
            raise InputError("max_replicas: missing beside target_qps_per_replica")
    return policy


def _check_resources(resources: Mapping[str, Any]) -> None:
    for place in resources.get("any_of") or [{}]:
        whole = {**resources, **place}
        cloud, cards = whole.get("cloud"), whole.get("accelerators")
        if cloud not in SKYPILOT_CLOUDS.values():
            raise InputError(
                f"resources.cloud {cloud!r}: missing or unknown; the price is that of one cloud,"
                " so name it, e.g. aws"
            )
        name, _, count = str(cards or "").partition(":")
        if not name or not (count or "1").isdigit():
            raise InputError(f"resources.accelerators {cards!r}: write NAME:COUNT, e.g. L4:1")
