"""One offer, one price: what to do when payloads of one run state the same offer twice.

Equal prices are one offer (the fuller description is kept). Different prices for one full key
are a conflict: neither is believed, the stored price stays, and both rows are reported. The
order of the rows never decides.
"""

from __future__ import annotations

from decimal import Decimal

from core.market import Availability, Offer, OfferKey, Parsed, Rejected

_SAME = Decimal("0.000001")
"""Prices that differ by less are one price printed twice."""


def merged(parsed: Parsed) -> tuple[Parsed, frozenset[OfferKey]]:
    """Return ``parsed`` with one offer per key, and the keys that are in conflict."""
    groups: dict[OfferKey, list[Offer]] = {}
    for offer in parsed.offers:
        groups.setdefault(offer.key, []).append(offer)
    conflicts: set[OfferKey] = set(parsed.conflicts)
    result = Parsed(
        rejected=list(parsed.rejected),
        failures=parsed.failures,
        egress=parsed.egress,
        observations=parsed.observations,
        conflicts=parsed.conflicts,
    )
    for key, group in groups.items():
        prices = [offer.usd_per_hour for offer in group]
        if key in conflicts or max(prices) - min(prices) > _SAME:
            conflicts.add(key)
            stated = ", ".join(sorted({format(price, "f") for price in prices}))
            result.rejected.append(
                Rejected(
                    "price_conflict",
                    f"{stated} USD/h for the same offer; the stored price stays",
                    str(key),
                    count=len(group),
                )
            )
            continue
        result.offers.append(max(group, key=_fullness))
        if len(group) > 1:
            result.rejected.append(
                Rejected("duplicate", "stated more than once", str(key), count=len(group) - 1)
            )
    return result, frozenset(conflicts)


def _fullness(offer: Offer) -> tuple[bool, bool, bool, str, str, str]:
    """How much an offer says; the texts make the choice independent of order."""
    return (
        offer.availability is not Availability.UNKNOWN,
        offer.vcpu is not None,
        offer.egress_usd_per_gb is not None,
        offer.source_url,
        offer.note,
        repr(offer),
    )
