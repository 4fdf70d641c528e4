"""Whether a run may replace what is stored. A run that looks wrong never replaces a right one.

The checks (``pricing.checks``) compare a run with the last good one, with the bundled prices of
each card, with other providers' present prices, and with itself. What they doubt waits: a whole
run (``suspect``), a scope, or a single offer keeps its stored price until a second look, some time
later, finds the same again, or until a person says that it is right. What they warn of is written
and named. Nothing is dropped in silence: every finding is stored with the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal

from core.market import Failure, OfferKey, Parsed
from db.findings import subject_of
from db.records import Finding, MarketPrice, OpenPrice, RunState, Scope, StoredRun, Weight
from pricing.checks import bands, completeness, cross, moves, twins

CONFIRM_AFTER = timedelta(minutes=10)
"""Two looks closer together may have met the same hiccup."""

AGREES_WITHIN = Decimal("0.1")
"""A second look that finds a doubt's number again within a tenth agrees with the first."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do with a run.

    Attributes:
        held: scopes that keep their stored prices.
        held_keys: single offers likewise; one that is not stored yet is not written.
        closing: whether offers missing from the run end.
        findings: all that there is to say.
    """

    state: RunState
    reason: str = ""
    detail: str = ""
    held: frozenset[Scope] = frozenset()
    held_keys: frozenset[OfferKey] = frozenset()
    closing: bool = True
    findings: tuple[Finding, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What a run is judged against.

    Attributes:
        stored: present price by offer, of the last good runs.
        kind: ``list`` or ``marketplace``.
        now: the instant of this run.
        observed_at: when its payloads were fetched; None = now.
        last: the newest run before this one that saw a price list.
        last_findings: what that run found.
        market: present prices of other providers.
        accepted: a person says that the run is right.
    """

    stored: Mapping[OfferKey, OpenPrice]
    kind: str
    now: datetime
    observed_at: datetime | None = None
    last: StoredRun | None = None
    last_findings: Sequence[Finding] = ()
    market: Sequence[MarketPrice] = ()
    accepted: bool = False
    _found_before: dict[tuple[str, str], Decimal | None] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        before = {(item.rule, item.subject): item.value for item in self.last_findings}
        object.__setattr__(self, "_found_before", before)

    def agrees(self, doubt: Finding) -> bool:
        """Whether the look before this one, independent of it, had the same doubt."""
        if self.accepted:
            return True
        key = (doubt.rule, subject_of(doubt))
        if not self._independent() or key not in self._found_before:
            return False
        before = self._found_before[key]
        if doubt.value is None or before is None:
            return doubt.value is before
        return abs(doubt.value - before) <= AGREES_WITHIN * abs(before)

    def _independent(self) -> bool:
        """A second look counts when it was fetched anew, some time after the first had ended."""
        if self.last is None or self.now - self.last.finished_at < CONFIRM_AFTER:
            return False
        seen, before = self.observed_at, self.last.observed_at
        return seen is None or before is None or seen - before >= CONFIRM_AFTER


def judge(parsed: Parsed, fetch_failures: Sequence[Failure], evidence: Evidence) -> Verdict:
    """Judge a run.

    Args:
        parsed: merged result of the run.
        fetch_failures: parts that could not be had.
        evidence: what it is judged against.
    """
    failures = [*parsed.failures, *fetch_failures]
    if not parsed.offers:
        if failures:
            return Verdict(RunState.FAILED, failures[0].reason, failures[0].detail)
        return Verdict(
            RunState.FAILED, "no_offers", "the source listed no offer; stored prices stay"
        )
    holes = completeness.missing_scopes(parsed.offers, evidence.stored, evidence.kind)
    matched = moves.pairs(parsed.offers, evidence.stored)
    twin = twins.twin_regions(matched, evidence.stored)
    outside = bands.outside(parsed.offers, bands.bundled_bands())
    jumps = moves.jumps(matched)
    named = [*_said(parsed, matched, evidence), *jumps.values()]
    doubts = _doubts(parsed, matched, evidence, outside, complete=not failures)
    open_doubts = [doubt for doubt in doubts if not evidence.agrees(doubt)]
    if open_doubts:
        first = open_doubts[0]
        words = f"{first.detail}; stored prices stay"
        everything = (*doubts, *twin.values(), *outside.values(), *holes.values(), *named)
        return Verdict(RunState.SUSPECT, first.rule, words, findings=everything)

    if evidence.accepted:
        holes = {}
    elif any(doubt.rule == "offers_halved" for doubt in doubts):
        # Twice the same short list is the market now, but a scope of which nothing at all came
        # is a hole, however often it is seen.
        listed = {completeness.scope_of(offer) for offer in parsed.offers}
        holes = {scope: found for scope, found in holes.items() if scope not in listed}
    held = {**holes, **{scope: f for scope, f in twin.items() if not evidence.agrees(f)}}
    strange = _strange(outside, jumps, evidence)
    if "outside_bands" in {doubt.rule for doubt in doubts}:
        strange = {}  # believed as a whole, and so is each of them
    findings = (
        *(_believed(doubt) for doubt in doubts),
        *(f if scope in held else _believed(f) for scope, f in twin.items()),
        *(f if key in strange else _believed(f) for key, f in outside.items()),
        *holes.values(),
        *named,
    )
    told = _compiled(failures, doubts, held, strange, findings)
    if told.state is RunState.OK and strange.keys() & evidence.stored.keys():
        return replace(told, state=RunState.PARTIAL)  # a stored price was not renewed
    return told


def _believed(doubt: Finding) -> Finding:
    """A doubt that was answered is still worth a look."""
    return replace(doubt, weight=Weight.WARN)


def _compiled(
    failures: Sequence[Failure],
    confirmed: Sequence[Finding],
    held: Mapping[Scope, Finding],
    strange: Mapping[OfferKey, Finding],
    findings: tuple[Finding, ...],
) -> Verdict:
    """State and words of a run that writes prices, the most telling first."""
    scopes, keys = frozenset(held), frozenset(strange)
    names = ", ".join(f"{region} {option}" for region, option in sorted(held))
    if failures:
        words = f"{len(failures)} of the payloads could not be used: {failures[0].detail}"
        return Verdict(
            RunState.PARTIAL, failures[0].reason, words, scopes, keys, False, findings
        )  # fmt: skip
    state = RunState.PARTIAL if held else RunState.OK
    if confirmed:
        reason = "confirmed"
        words = f"{confirmed[0].detail}; confirmed by a second run"
    elif held:
        rule = next(iter(held.values())).rule
        reason = "missing_scopes" if rule == "missing_scope" else rule
        words = f"nothing or too little for {names}"
        if rule != "missing_scope":
            words = f"in doubt: {names}: {next(iter(held.values())).detail}"
    elif strange:
        first = next(iter(strange.values()))
        reason = "doubtful_prices"
        words = (
            f"{len(strange)} prices wait for a second look; {first.subject}: {first.detail}"
        )  # fmt: skip
    else:
        reason = words = ""
    return Verdict(state, reason, words, scopes, keys, True, findings)


def _doubts(
    parsed: Parsed,
    matched: Sequence[moves.Pair],
    evidence: Evidence,
    outside: dict[OfferKey, Finding],
    *,
    complete: bool,
) -> list[Finding]:
    """Say what is odd about the run as a whole.

    Args:
        complete: every payload was usable; without that a short list needs no other explanation
            (it closes nothing, and its holes are held).
    """
    fresh = moves.fresh_keys(matched)
    found = [
        completeness.halved(parsed.offers, evidence.stored) if complete else None,
        moves.moved(matched),
        bands.unit_mistake(parsed.offers, fresh),
        bands.mostly_outside(outside, parsed.offers, fresh),
        twins.twin_provider(parsed.offers, evidence.market, fresh),
    ]
    return [doubt for doubt in found if doubt is not None]


def _said(parsed: Parsed, matched: Sequence[moves.Pair], evidence: Evidence) -> list[Finding]:
    """Say what is worth a look and changes nothing."""
    at = evidence.observed_at or evidence.now
    still = moves.frozen(matched, evidence.kind, at)
    return [
        *([still] if still else []),
        *cross.spot_above_on_demand(parsed.offers),
        *cross.outliers(parsed.offers, evidence.market).values(),
    ]


def _strange(
    outside: Mapping[OfferKey, Finding], jumps: Mapping[OfferKey, Finding], evidence: Evidence
) -> dict[OfferKey, Finding]:
    """Return the offers whose price is implausible and new: they wait for a second look.

    One that was stored at such a price before, and has not jumped, is known to be so.
    """
    return {
        key: found
        for key, found in outside.items()
        if (key not in evidence.stored or key in jumps) and not evidence.agrees(found)
    }
