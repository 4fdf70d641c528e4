"""Parts of a plan's answer in words."""

from __future__ import annotations

from typing import Any


def verdict_lines(document: dict[str, Any] | None) -> list[str]:
    """The verdict: the decision, then each rule with its numbers; older plans have none."""
    if document is None:
        return []
    rules = [
        f"  {'met' if rule['met'] else 'not':3}  {rule['id']} {rule['text']}"
        f" ({rule['favours']}): {rule['numbers']}"
        for rule in document["rules"]
    ]
    return ["", f"verdict  {document['text']}", *rules]
