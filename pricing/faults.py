"""Offers that a run misses because their row could not be read.

A row with a null or absurd price is rejected, and its offer is then missing from the run. That
is no sign that the offer ended: its stored price must stay and age. Which offer a broken row
stood for is often unknowable, so counts decide: more broken rows than the last sound run had,
and offers missing at the same time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from core.market import OfferKey, Parsed

FAULTS = frozenset(
    {
        "bad_number",
        "bad_shape",
        "bad_value",
        "implausible_price",
        "missing_field",
        "no_price",
        "zero_price",
    }
)
"""Reasons that say "this row is broken", not "this row is something else than an offer"."""


def new_faults(parsed: Parsed, before: Mapping[str, int]) -> int:
    """Return how many broken rows there are beyond those of the last sound run.

    Args:
        before: rejected rows of that run by reason.
    """
    now: Counter[str] = Counter()
    for item in parsed.rejected:
        if item.reason in FAULTS:
            now[item.reason] += item.count
    return sum(max(0, count - before.get(reason, 0)) for reason, count in now.items())


def unread(
    parsed: Parsed, stored: Collection[OfferKey], before: Mapping[str, int] | None, *, kind: str
) -> frozenset[OfferKey]:
    """Return the stored offers that may be missing only because their row was broken.

    In a price list, one row can stand for an offer in many regions, so any new fault explains
    any absence. On a marketplace hosts leave all the time: faults explain at most as many
    absences as there are broken rows.

    Args:
        stored: keys of the current offers.
        before: rejected rows of the last sound run by reason; None = there is none lately, and
            nothing is held any longer.
        kind: ``list`` or ``marketplace``.
    """
    if before is None:
        return frozenset()
    faults = new_faults(parsed, before)
    missing = frozenset(stored) - {offer.key for offer in parsed.offers}
    if not faults or not missing or (kind == "marketplace" and len(missing) > faults):
        return frozenset()
    return missing
