"""Reads an exported Terraform file with an independent parser and checks the provider's rules."""

from __future__ import annotations

import json
import re
from typing import Any

import hcl2

STRATEGIES = {
    "lowest-price", "capacity-optimized", "capacity-optimized-prioritized",
    "price-capacity-optimized",
}  # fmt: skip


def read_terraform(text: str) -> dict[str, dict[str, Any]]:
    """The resources by type and name, after the rules that AWS and Terraform state for them."""
    loaded = _plain(hcl2.loads(text))
    resources: dict[str, dict[str, Any]] = {}
    for block in loaded["resource"]:
        for kind, named in block.items():
            for name, body in named.items():
                assert name not in resources.setdefault(kind, {}), "a resource twice"
                assert re.fullmatch(r"[a-zA-Z_][\w-]*", name)
                resources[kind][name] = body
    declared = {name for block in loaded["variable"] for name in block}
    assert set(re.findall(r"\bvar\.(\w+)", text)) <= declared
    (group,) = resources["aws_autoscaling_group"].values()
    assert 0 <= group["min_size"] <= group["desired_capacity"] <= group["max_size"]
    assert len(group["name"]) <= 255
    (policy,) = group["mixed_instances_policy"]
    (share,) = policy["instances_distribution"]
    assert share["on_demand_base_capacity"] >= 0
    assert 0 <= share["on_demand_percentage_above_base_capacity"] <= 100
    assert share["spot_allocation_strategy"] in STRATEGIES
    (template,) = policy["launch_template"]
    assert 1 <= len(template["override"]) <= 40
    weights = [item.get("weighted_capacity") for item in template["override"]]
    assert all(w is None for w in weights) or all(1 <= int(w) <= 999 for w in weights)
    schedules = resources.get("aws_autoscaling_schedule", {})
    assert len(schedules) <= 125
    for item in schedules.values():
        assert item["min_size"] <= item["desired_capacity"] <= item["max_size"]
        assert re.fullmatch(r"0 (\d|1\d|2[0-3]) \* \* (\*|[0-6])", item["recurrence"])
    return resources


def _plain(value: Any) -> Any:
    """Strings without their quotes and escapes; the parser's own marks left out."""
    if isinstance(value, dict):
        return {
            _plain(key): _plain(item) for key, item in value.items() if not key.startswith("__")
        }
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, str) and value.startswith('"'):
        # No template may be left in a quoted string: its escapes are then those of JSON.
        assert not re.search(r"[$%]\{", value), f"a template in {value}"
        return json.loads(value)
    return value
