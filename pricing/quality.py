"""Whether a run may replace what is stored. A run that looks wrong never replaces a right one.

Completeness is judged per (region, purchase option): a region that vanished is a hole in the
source, not the end of its offers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from statistics import median

from core.market import Failure, OfferKey, Parsed
from db.records import RunState, Scope, StoredRun

MIN_SHARE = 0.5
"""A scope or source that lists less than half of what it did is not believed complete."""

MIN_SCOPE = {"list": 4, "marketplace": 10}
"""Scopes smaller than this come and go; hosts of a marketplace do so all the time."""

MAX_MOVE = Decimal(3)
"""A median move beyond x3 or /3 over matched offers looks like a unit mistake (per GPU
against per instance is x8); real cuts of 44 % stay below it."""

MIN_MATCHED = 5
CONFIRM_AFTER = timedelta(minutes=10)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a run.

    Attributes:
        held: scopes that keep their stored prices.
        closing: whether offers missing from the run end.
    """

    state: RunState
    reason: str = ""
    detail: str = ""
    held: frozenset[Scope] = frozenset()
    closing: bool = True


def judge(
    parsed: Parsed,
    fetch_failures: list[Failure],
    stored: Mapping[OfferKey, Decimal],
    *,
    kind: str,
    last_run: StoredRun | None,
    now: datetime,
) -> Verdict:
    """Judge a run against what is stored.

    Args:
        parsed: merged result of the run.
        fetch_failures: parts that could not be had.
        stored: current price by offer.
        kind: ``list`` or ``marketplace``.
        last_run: the source's run before this one.
        now: the instant of this run.
    """
    failures = [*parsed.failures, *fetch_failures]
    if not parsed.offers:
        if failures:
            return Verdict(RunState.FAILED, failures[0].reason, failures[0].detail)
        return Verdict(
            RunState.FAILED, "no_offers", "the source listed no offer; stored prices stay"
        )
    held = _holes(parsed, stored, kind)
    if doubt := _doubt(parsed, stored, complete=not failures):
        reason, detail = doubt
        if not _confirmed(reason, len(parsed.offers), last_run, now):
            return Verdict(RunState.SUSPECT, reason, f"{detail}; stored prices stay")
        if reason == "offers_halved":
            # Twice the same short list is the market now, but a scope of which nothing at all
            # came is a hole, however often it is seen.
            listed = {(offer.region, offer.purchase_option.value) for offer in parsed.offers}
            held = frozenset(scope for scope in held if scope not in listed)
        if not failures:
            return Verdict(
                RunState.PARTIAL if held else RunState.OK,
                "confirmed",
                f"{detail}; confirmed by a second run",
                held,
            )
    if failures:
        words = f"{len(failures)} of the payloads could not be used: {failures[0].detail}"
        return Verdict(RunState.PARTIAL, failures[0].reason, words, held, closing=False)
    if held:
        names = ", ".join(f"{region} {option}" for region, option in sorted(held))
        return Verdict(
            RunState.PARTIAL, "missing_scopes", f"nothing or too little for {names}", held
        )
    return Verdict(RunState.OK)


def _doubt(
    parsed: Parsed, stored: Mapping[OfferKey, Decimal], *, complete: bool
) -> tuple[str, str] | None:
    """Say what is odd about the run as a whole, or None.

    Args:
        complete: every payload was usable; without that a short list needs no other explanation
            (it closes nothing, and its holes are held).
    """
    few = len(stored) >= MIN_SCOPE["marketplace"] and len(parsed.offers) < MIN_SHARE * len(stored)
    if complete and few:
        return "offers_halved", f"offers fell from {len(stored)} to {len(parsed.offers)}"
    ratios = [
        offer.usd_per_hour / stored[offer.key] for offer in parsed.offers if offer.key in stored
    ]
    if len(ratios) >= MIN_MATCHED:
        move = median(ratios)
        if not 1 / MAX_MOVE <= move <= MAX_MOVE:
            return "prices_moved", f"the median price moved by a factor of {move:.2f}"
    return None


def _confirmed(reason: str, offers: int, last: StoredRun | None, now: datetime) -> bool:
    """A second look, some time later, that finds the same is believed."""
    return (
        last is not None
        and last.state == RunState.SUSPECT
        and last.reason == reason
        and now - last.finished_at >= CONFIRM_AFTER
        and abs(offers - last.offers) <= 0.1 * last.offers
    )


def _holes(parsed: Parsed, stored: Mapping[OfferKey, Decimal], kind: str) -> frozenset[Scope]:
    before = Counter((key.region, key.purchase_option) for key in stored)
    after = Counter((offer.region, offer.purchase_option.value) for offer in parsed.offers)
    floor = MIN_SCOPE.get(kind, MIN_SCOPE["list"])
    return frozenset(
        scope
        for scope, count in before.items()
        if count >= floor and after[scope] < MIN_SHARE * count
    )
