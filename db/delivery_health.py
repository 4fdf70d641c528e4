"""How the outbox is doing: what waits, what is late, what will not arrive."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from db.outbox import DEAD, DELIVERED, WAITING
from db.saved_models import DeliveryRow


@dataclass(frozen=True, slots=True)
class Queue:
    """The state of the outbox.

    Attributes:
        waiting: deliveries that are not over.
        late: those of them that are due.
        oldest_due: when the one that has been due longest became due; None without any.
        delivered, dead: deliveries that are over, as long as they are kept.
    """

    waiting: int
    late: int
    oldest_due: datetime | None
    delivered: int
    dead: int

    @property
    def empty(self) -> bool:
        """Whether nothing was ever put into it, or nothing of it is kept."""
        return not (self.waiting or self.delivered or self.dead)


def queue_of(session: Session, now: datetime) -> Queue:
    """Read the state of the outbox."""
    by_state = select(DeliveryRow.state, func.count()).group_by(DeliveryRow.state)
    counts = dict(session.execute(by_state).all())
    late, oldest = session.execute(
        select(func.count(), func.min(DeliveryRow.due_at)).where(
            DeliveryRow.state == WAITING, DeliveryRow.due_at <= now
        )
    ).one()
    return Queue(
        counts.get(WAITING, 0), late, oldest, counts.get(DELIVERED, 0), counts.get(DEAD, 0)
    )
