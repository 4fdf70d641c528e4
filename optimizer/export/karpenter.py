"""An AWS fleet as Karpenter NodePools (``karpenter.sh/v1``), and the rules they must keep.

Karpenter starts nodes for pods that wait, from the pool of the highest weight that has room under
its limits. The on-demand base comes first, then spot, then the rest on demand.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from core.errors import InputError
from optimizer.export.answer import Draft, Fleet, Row, header
from optimizer.export.cards import card, gpus_each, is_zone_id, other_tier_notes
from optimizer.export.shape import one_region, only_provider
from optimizer.export.writing import read_yaml, yaml_documents

BASE_WEIGHT, SPOT_WEIGHT, REST_WEIGHT = 100, 50, 10
_RESOURCES = {"NVIDIA": "nvidia.com/gpu", "AMD": "amd.com/gpu"}
_LABEL_VALUE = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_OBJECT_NAME = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DURATION = re.compile(r"([0-9]+(s|m|h))+|Never")
_KEYS = (
    "karpenter.sh/capacity-type", "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "topology.k8s.aws/zone-id",
    "kubernetes.io/arch",
)  # fmt: skip
_POLICIES = ("WhenEmpty", "WhenEmptyOrUnderutilized")


def render(fleet: Fleet) -> Draft:
    """Write up to three pools: the on-demand base, spot, and on demand beyond the base.

    Raises:
        InputError: a row outside AWS, several regions, or a name that no label can hold.
    """
    only_provider(fleet, "aws", "karpenter", "plan again with --provider aws")
    region = one_region(fleet, "karpenter")
    vendors = sorted({card(row, "karpenter").vendor for row in fleet.rows})
    if len(vendors) > 1:
        raise InputError("karpenter: NVIDIA and AMD cards in one fleet; plan again with one --gpu")
    resource = _RESOURCES[vendors[0]]
    pools = [
        _pool(fleet, name, rows, weight, gpus, resource, region)
        for name, rows, weight, gpus in _shares(fleet)
        if gpus
    ]
    each = sorted({gpus_each(fleet, row) for row in fleet.rows})
    notes = [
        "nodes follow the pods that wait: scale the pods by the hour or by load, each asking for"
        f" {resource} {' or '.join(map(str, each))} and tolerating its taint",
        "limits count GPUs of a whole pool, not instances per zone, and may be passed by a node or"
        " two for a moment",
        "an EC2NodeClass named default must exist in the cluster",
        *other_tier_notes(fleet),
    ]
    base = fleet.per_hour(fleet.on_demand)
    if fleet.spot and max(base) > min(base):
        notes.append(
            f"on demand the plan runs {min(base)} to {max(base)} instances by the hour; beyond the"
            " base spot comes first"
        )
    return Draft(header(fleet, notes) + yaml_documents(*pools), tuple(notes))


def _shares(fleet: Fleet) -> list[tuple[str, Sequence[Row], int, int]]:
    """(name, rows, weight, GPUs at most) of each pool."""
    steady = fleet.per_hour(fleet.on_demand, _gpus)
    spare = sum(row.stand_ins * row.gpu_count for row in fleet.on_demand)
    if not fleet.spot:
        return [("on-demand", fleet.on_demand, BASE_WEIGHT, max(steady) + spare)]
    planned = [row for row in fleet.on_demand if any(row.by_hour)]
    base = min(steady)
    return [
        ("base", planned, BASE_WEIGHT, base),
        ("spot", fleet.spot, SPOT_WEIGHT, max(fleet.per_hour(fleet.spot, _gpus))),
        ("rest", fleet.on_demand, REST_WEIGHT, max(steady) + spare - base),
    ]


def _gpus(row: Row) -> int:
    return row.gpu_count


def _pool(
    fleet: Fleet,
    name: str,
    rows: Sequence[Row],
    weight: int,
    gpus: int,
    resource: str,
    region: str,
) -> dict[str, Any]:
    capacity = "spot" if name == "spot" else "on-demand"
    requirements = [
        ("karpenter.sh/capacity-type", {capacity}),
        ("node.kubernetes.io/instance-type", {row.instance_type for row in rows}),
    ]
    if all(is_zone_id(row) for row in rows):
        requirements.append(("topology.k8s.aws/zone-id", {row.zone for row in rows}))
    elif all(row.zone and not is_zone_id(row) for row in rows):
        requirements.append(("topology.kubernetes.io/zone", {row.zone for row in rows}))
    elif region:
        requirements.append(("topology.kubernetes.io/region", {region}))
    for key, values in requirements:
        for value in values:
            if not _LABEL_VALUE.fullmatch(value):
                raise InputError(f"karpenter: {key} {value!r} cannot be a label; at most 63 of"
                                 " A-Z, a-z, 0-9, dot, dash and underscore")  # fmt: skip
    return {
        "apiVersion": "karpenter.sh/v1",
        "kind": "NodePool",
        "metadata": {
            "name": f"{fleet.slug}-{name}",
            "annotations": {"spotfloor/plan": fleet.plan_id, "spotfloor/name": fleet.name},
        },
        "spec": {
            "template": {
                "spec": {
                    "nodeClassRef": {
                        "group": "karpenter.k8s.aws",
                        "kind": "EC2NodeClass",
                        "name": "default",
                    },
                    "requirements": [
                        {"key": key, "operator": "In", "values": sorted(values)}
                        for key, values in requirements
                    ],
                    "taints": [{"key": resource, "value": "true", "effect": "NoSchedule"}],
                }
            },
            # A model server that is moved reloads its weights: only empty nodes are taken down.
            "disruption": {"consolidationPolicy": "WhenEmpty", "consolidateAfter": "5m"},
            "limits": {resource: gpus},
            "weight": weight,
        },
    }


def check(text: str) -> list[dict[str, Any]]:
    """Check NodePools against the rules of Karpenter v1 for the fields that an export writes.

    Raises:
        InputError: a rule is broken; the message names the pool and the field.
    """
    documents = read_yaml(text, "karpenter")
    names = set()
    for document in documents:
        if not isinstance(document, dict) or document.get("kind") != "NodePool":
            raise InputError("karpenter: a document that is no NodePool")
        if document.get("apiVersion") != "karpenter.sh/v1":
            raise InputError(f"apiVersion {document.get('apiVersion')!r}: write karpenter.sh/v1")
        name = document.get("metadata", {}).get("name")
        if not isinstance(name, str) or not _OBJECT_NAME.fullmatch(name) or name in names:
            raise InputError(f"metadata.name {name!r}: twice, or not of a-z, 0-9 and -")
        names.add(name)
        _check_spec(name, document.get("spec", {}))
    return documents


def _check_spec(name: str, spec: dict[str, Any]) -> None:
    weight, limits = spec.get("weight", 1), spec.get("limits", {})
    if isinstance(weight, bool) or not isinstance(weight, int) or not 1 <= weight <= 100:
        raise InputError(f"{name} weight {weight!r}: write 1 to 100")
    if not all(isinstance(count, int) and count > 0 for count in limits.values()):
        raise InputError(f"{name} limits {limits!r}: write whole numbers above 0")
    disruption = spec.get("disruption", {"consolidateAfter": "0s"})
    if not _DURATION.fullmatch(str(disruption.get("consolidateAfter"))):
        raise InputError(f"{name} disruption.consolidateAfter: missing or no duration, e.g. 5m")
    if disruption.get("consolidationPolicy", _POLICIES[0]) not in _POLICIES:
        raise InputError(f"{name} disruption.consolidationPolicy: write one of {_POLICIES}")
    template = spec.get("template", {}).get("spec", {})
    reference = template.get("nodeClassRef", {})
    if not all(reference.get(key) for key in ("group", "kind", "name")):
        raise InputError(f"{name} nodeClassRef: group, kind and name are due")
    if "/" in reference["group"]:
        raise InputError(f"{name} nodeClassRef.group {reference['group']!r}: without a version")
    requirements = template.get("requirements")
    if not isinstance(requirements, list) or not 0 < len(requirements) <= 100:
        raise InputError(f"{name} requirements: 1 to 100 are due")
    for item in requirements:
        key, values = item.get("key"), item.get("values")
        if key not in _KEYS:
            raise InputError(f"{name} requirements key {key!r}: not among {', '.join(_KEYS)}")
        if item.get("operator") != "In" or not values:
            raise InputError(f"{name} {key}: operator In with at least one value is due")
        for value in values:
            if not isinstance(value, str) or not _LABEL_VALUE.fullmatch(value):
                raise InputError(f"{name} {key} {value!r}: cannot be a label")
