"""Events in the life of a user's own nodes: what a hazard rate of one's own is made of."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.clock import require_utc


class NodeEventKind(StrEnum):
    """What a node may report."""

    STARTED = "started"
    NOTICE = "notice"
    """The provider said that it will take the node."""
    PREEMPTED = "preempted"
    """The provider took the node."""
    ENDED = "ended"
    """The user gave the node back: no loss."""


@dataclass(frozen=True, slots=True, order=True)
class NodeEvent:
    """One event of one node.

    Attributes:
        zone: "" when not known.
        node: any name that tells nodes of one pool apart; "" = not told.
        at: when it happened, UTC.
    """

    at: datetime
    provider: str
    instance_type: str
    region: str
    event: NodeEventKind
    zone: str = ""
    node: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "at", require_utc(self.at))
