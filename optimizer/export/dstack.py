"""A fleet as a dstack service with replica groups, and the rules that such a file must keep.

A group has its own count, GPUs and ``spot_policy``; backend, regions and instance types are said
once for the whole service. The autoscaler of each group reads the rate of the whole service.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from core.errors import InputError
from optimizer.export.answer import Draft, Fleet, Row, header
from optimizer.export.cards import (
    DSTACK_BACKENDS,
    cloud_of,
    dstack_card,
    model_note,
    other_tier_notes,
    place_names,
    place_notes,
    serve_command,
)
from optimizer.export.shape import peak_rate_share, require_near, scaled, scaler_note
from optimizer.export.writing import read_yaml, yaml_documents
from optimizer.launch import VLLM_IMAGE

_NAME = re.compile(r"[a-z][a-z0-9-]{1,40}")
_GROUP_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")
_GPU = re.compile(r"[A-Za-z0-9]+(:\d+GB)?:\d+")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_POLICIES = ("spot", "on-demand", "auto")
_PER_GROUP = ("scaling", "commands", "resources", "spot_policy")


def render(fleet: Fleet) -> Draft:
    """Write the service.

    Raises:
        InputError: several providers, one that dstack has not, or a range without a known rate.
    """
    backends = sorted({cloud_of(row, DSTACK_BACKENDS, "dstack") for row in fleet.rows})
    if len(backends) > 1:
        raise InputError(
            "dstack: a replica group cannot be tied to its provider, and the plan uses"
            f" {', '.join(backends)}; plan again with one --provider"
        )
    notes = [
        "needs dstack 0.20.24 or later, and a gateway to scale",
        model_note(fleet, "pass the model: MODEL=ORG/NAME in the environment or with -e"),
        *place_notes(fleet),
        *other_tier_notes(fleet),
    ]
    groups = _groups(fleet, notes)
    document: dict[str, object] = {
        "type": "service",
        "name": fleet.slug,
        "image": VLLM_IMAGE,
        "env": [f"MODEL={fleet.model}" if fleet.model else "MODEL"],
        "port": 8000,
        "backends": backends,
    }
    places = [place_names(row) for row in fleet.rows]
    for key, values in (
        ("regions", {region for region, _ in places}),
        ("availability_zones", {zone for _, zone in places}),
    ):
        if all(values):
            document[key] = sorted(values)
    if backends[0] in {"aws", "azure", "gcp"}:
        document["instance_types"] = sorted({row.instance_type for row in fleet.rows})
    if len({(row.region, row.zone) for row in fleet.rows}) > 1:
        notes.append(
            "places are said for all groups together: how many instances run in which is not kept"
        )
    document["replicas"] = groups
    return Draft(header(fleet, notes) + yaml_documents(document), tuple(notes))


@dataclass(frozen=True, slots=True)
class _Share:
    """What one replica group runs: instances by hour, all of one kind."""

    row: Row
    spot: bool
    planned: tuple[int, ...]


def _groups(fleet: Fleet, notes: list[str]) -> list[dict[str, object]]:
    covered = bool(fleet.spot) and fleet.stand_ins > 0
    shares = _by_kind(fleet)
    pooled = _pooled(fleet)
    if pooled and sum(map(sum, _run(fleet, pooled))) < sum(map(sum, _run(fleet, shares))):
        shares = pooled
        base = fleet.per_hour(fleet.on_demand)
        notes.append(
            f"on demand the plan runs {min(base)} to {max(base)} instances by the hour; the base"
            f" keeps {min(base)}, and the rest joins the spot group"
        )
    if covered:
        notes.append(
            f"the {fleet.stand_ins} on-demand stand-ins of the plan become spot_policy auto: spot"
            " where it is to be had, else on demand"
        )
    run = _run(fleet, shares)
    require_near(
        fleet.per_hour(fleet.rows), [sum(hour) for hour in zip(*run, strict=True)], "dstack"
    )
    groups = []
    for number, (share, ran) in enumerate(zip(shares, run, strict=True)):
        name = f"{'burst' if share.spot else 'base'}-{number}"
        policy = ("auto" if covered else "spot") if share.spot else "on-demand"
        groups.append(_group(fleet, share, name, policy))
        if "scaling" in groups[-1]:
            notes.append(scaler_note(share.planned, ran, name))
    return groups


def _by_kind(fleet: Fleet) -> list[_Share]:
    """A group for each purchase option, card and number of replicas."""
    kinds: dict[tuple[bool, str, int], list[Row]] = {}
    for row in fleet.rows:
        kinds.setdefault((row.spot, dstack_card(row), row.replicas), []).append(row)
    shares = [_Share(rows[0], rows[0].spot, fleet.per_hour(rows)) for rows in kinds.values()]
    # Stand-ins alone make no group: the spot groups fall back by themselves.
    return [share for share in shares if any(share.planned)]


def _pooled(fleet: Fleet) -> list[_Share]:
    """A steady on-demand base and all the rest on spot; none where rows differ in kind."""
    if len({(dstack_card(row), row.replicas) for row in fleet.rows}) > 1 or not fleet.spot:
        return []
    base = min(fleet.per_hour(fleet.on_demand))
    rest = tuple(count - base for count in fleet.per_hour(fleet.rows))
    row = fleet.rows[0]
    shares = [_Share(row, False, (base,) * len(rest)), _Share(row, True, rest)]
    return [share for share in shares if any(share.planned)]


def _run(fleet: Fleet, shares: Sequence[_Share]) -> list[tuple[int, ...]]:
    """Instances that each group runs in each hour, were the demand as planned."""
    return [
        share.planned
        if min(share.planned) == max(share.planned)
        else scaled(fleet, share.planned, peak_rate_share(fleet, share.planned, "dstack"))
        for share in shares
    ]


def _group(fleet: Fleet, share: _Share, name: str, policy: str) -> dict[str, object]:
    low, high = min(share.planned), max(share.planned)
    group: dict[str, object] = {
        "name": name,
        "count": low if low == high else f"{low}..{high}",
        "spot_policy": policy,
        "resources": {"gpu": dstack_card(share.row)},
        "commands": [serve_command(fleet, share.row, "dstack")],
    }
    if low != high:
        target = peak_rate_share(fleet, share.planned, "dstack")
        group["scaling"] = {"metric": "rps", "target": target}
    return group


def check(text: str) -> dict[str, Any]:
    """Check a service against dstack's rules for the fields that an export writes.

    Raises:
        InputError: a rule is broken; the message names the field.
    """
    documents = read_yaml(text, "dstack")
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise InputError("dstack: not one mapping; a configuration is one YAML document")
    document: dict[str, Any] = documents[0]
    if document.get("type") != "service":
        raise InputError(f"type {document.get('type')!r}: write service")
    if not _NAME.fullmatch(str(document.get("name"))):
        raise InputError(f"name {document.get('name')!r}: a-z, 0-9 and -, a letter first")
    port = document.get("port")
    if isinstance(port, bool) or not isinstance(port, int) or not 0 < port <= 65535:
        raise InputError(f"port {port!r}: write a number from 1 to 65535")
    if unknown := set(document.get("backends") or []) - set(DSTACK_BACKENDS.values()):
        raise InputError(f"backends {sorted(unknown)}: dstack knows no such backend")
    groups = document.get("replicas")
    if not isinstance(groups, list) or not groups:
        raise InputError("replicas: write a list of at least one group")
    for key in _PER_GROUP:
        if key in document:
            raise InputError(f"{key}: belongs into each group, not beside replicas")
    names = [group.get("name") for group in groups]
    if len(names) != len(set(names)):
        raise InputError(f"replicas: two groups of one name among {names}")
    for group in groups:
        _check_group(group, document.get("image"))
    return document


def _check_group(group: dict[str, Any], image: object) -> None:
    name, count, scaling = group.get("name"), group.get("count"), group.get("scaling")
    if not _GROUP_NAME.fullmatch(str(name)):
        raise InputError(f"replicas name {name!r}: at most 40 of a-z, 0-9 and -")
    span = _RANGE.fullmatch(str(count))
    fixed = isinstance(count, int) and not isinstance(count, bool) and count >= 0
    if not fixed and (span is None or int(span[1]) > int(span[2])):
        raise InputError(f"{name} count {count!r}: write a number or a range such as 0..4")
    ranged = span is not None and int(span[1]) != int(span[2])
    if ranged != (scaling is not None):
        raise InputError(f"{name} scaling: due with a range of replicas, and only then")
    if scaling is not None and (scaling.get("metric") != "rps" or not scaling.get("target", 0) > 0):
        raise InputError(f"{name} scaling {scaling!r}: metric rps with a target above 0 is due")
    if group.get("spot_policy") not in _POLICIES:
        raise InputError(f"{name} spot_policy {group.get('spot_policy')!r}: not in {_POLICIES}")
    if not _GPU.fullmatch(str(group.get("resources", {}).get("gpu"))):
        raise InputError(
            f"{name} resources.gpu: write NAME:COUNT or NAME:MEMORY:COUNT, e.g. A100:80GB:2"
        )
    if not group.get("commands") and not image:
        raise InputError(f"{name} commands: missing, and there is no image that serves")
