"""What an offer cost over a stretch of time, as one figure to plan with.

``median-7d`` is the time-weighted median of the last seven days: in half of the known hours the
offer cost no more. ``p90-30d`` is the price that it kept at or under in 90 % of the known hours of
the last thirty days: what one pays on a dear day. Hours in which nobody looked, in which the offer
was not listed, or in which it was sold out, do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction

from core.errors import InputError
from db.engine import Session
from db.spans import offers_of_ids
from pricing.figures import weighted_quantiles
from pricing.index_read import offer_steps
from pricing.series import Step

WINDOWS: dict[str, tuple[timedelta, Fraction]] = {
    "median-7d": (timedelta(days=7), Fraction(1, 2)),
    "p90-30d": (timedelta(days=30), Fraction(9, 10)),
}
"""How far back, and the share of the known hours at or under the figure."""

LEAST_KNOWN = 0.5
"""Share of the window's hours that must be known; with fewer there is no figure."""

_CHUNK = 500


@dataclass(frozen=True, slots=True)
class BasisPrice:
    """A figure over time.

    Attributes:
        usd_per_hour: USD per instance-hour; None = too little history.
        known_hours: hours of the window with a price that could be had.
    """

    usd_per_hour: Decimal | None
    known_hours: float


def basis_price(steps: Sequence[Step], window: timedelta, share: Fraction) -> BasisPrice:
    """Reduce an offer's steps within a window to the figure."""
    paid = [
        (step.usd_per_hour, step.microseconds)
        for step in steps
        if step.usd_per_hour is not None and not step.sold_out
    ]
    micros = sum(length for _, length in paid)
    hours = micros / 3_600_000_000
    if micros == 0 or hours < LEAST_KNOWN * window / timedelta(hours=1):
        return BasisPrice(None, hours)
    (usd,) = weighted_quantiles([usd for usd, _ in paid], [length for _, length in paid], [share])
    return BasisPrice(usd, hours)


def basis_prices(
    session: Session, offers: Sequence[int], basis: str, until: datetime
) -> dict[int, Decimal]:
    """Read the figure of each offer that has enough history; none on the basis ``latest``.

    Args:
        offers: ids of stored offers.
        until: end of the window; use when prices were last seen.

    Raises:
        InputError: an unknown basis.
    """
    if basis == "latest":
        return {}
    if basis not in WINDOWS:
        raise InputError(f"price basis {basis!r}: write one of latest, {', '.join(WINDOWS)}")
    window, share = WINDOWS[basis]
    found: dict[int, Decimal] = {}
    ids = sorted(set(offers))
    for start in range(0, len(ids), _CHUNK):
        chunk = offers_of_ids(session, ids[start : start + _CHUNK])
        for offer, _, steps in offer_steps(session, chunk, since=until - window, until=until):
            usd = basis_price(steps, window, share).usd_per_hour
            if usd is not None:
                found[offer.id] = usd
    return found
