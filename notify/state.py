"""The state machine of one rule over one series. Pure: ``step(old, input) -> (new, event)``.

ok -> pending -> firing -> recovering -> ok. A look without data changes nothing but
``blind_since``: a failed scrape is compared with nothing, and the next good one is compared with
the last good one.

A condition counts again only when every source whose new look raised it was looked at once more;
that another source was looked at in between confirms nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

from core.clock import iso, parse_instant


class Phase(StrEnum):
    """Where a series stands."""

    OK = "ok"
    PENDING = "pending"
    FIRING = "firing"
    RECOVERING = "recovering"


class Verdict(StrEnum):
    """What one look says of the condition."""

    BREACH = "breach"
    BETWEEN = "between"
    """Neither fires nor is over (hysteresis)."""
    CLEAR = "clear"
    NO_DATA = "no_data"


@dataclass(frozen=True, slots=True)
class Policy:
    """What a rule says of time.

    Attributes:
        confirm, keep: looks that must agree before it fires, and before it is over.
        cooldown: no second firing within.
        patience: after a return, a new firing waits so many cooldowns.
        settle: after so long the new level is the usual one; None = never.
        quiet_start: what is true at the first look is not told.
    """

    confirm: int = 2
    keep: int = 2
    cooldown: timedelta = timedelta(hours=24)
    patience: int = 1
    settle: timedelta | None = None
    quiet_start: bool = True


@dataclass(frozen=True, slots=True)
class Input:
    """One look at a series.

    Attributes:
        value: what was measured; None without data.
        looks: when each source of the series was last looked at.
        further: it went a further step beyond what was told last.
        rising: whether larger is worse; None = a change of either sign counts.
        muted: the rule is silent; events are made, and not told.
    """

    at: datetime
    verdict: Verdict
    value: Decimal | None = None
    looks: Mapping[str, datetime] = field(default_factory=dict)
    further: bool = False
    rising: bool | None = None
    muted: bool = False


@dataclass(frozen=True, slots=True)
class State:
    """Where a series stands, and all that the next step needs.

    Attributes:
        since: when the phase began.
        count: looks that agreed so far, while something waits for confirmation.
        raised: looks that must be repeated before the count goes up.
        looks: of the step before.
        fired_at: begin of the present firing.
        told_at: the last firing event of this series, whenever that was.
        told_value: what was measured then.
        spoken: the present firing made an event; False for what was true from the beginning.
        extreme: the worst value of the present firing.
        returned: what fired last went back by itself.
        owed: it fired while the rule was silent.
        going_further: the count is of a further step.
    """

    at: datetime
    phase: Phase = Phase.OK
    since: datetime | None = None
    count: int = 0
    raised: Mapping[str, datetime] = field(default_factory=dict)
    looks: Mapping[str, datetime] = field(default_factory=dict)
    value: Decimal | None = None
    fired_at: datetime | None = None
    told_at: datetime | None = None
    told_value: Decimal | None = None
    spoken: bool = False
    extreme: Decimal | None = None
    returned: bool = False
    owed: bool = False
    going_further: bool = False
    blind_since: datetime | None = None

    def document(self) -> dict[str, Any]:
        """The state as plain data."""
        return {name: _plain(getattr(self, name)) for name in self.__slots__}

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> State:
        """Read what ``document`` made.

        Raises:
            KeyError, ValueError: it is none of ours.
        """
        made: dict[str, Any] = dict(document)
        for name in ("at", "since", "fired_at", "told_at", "blind_since"):
            made[name] = None if made[name] is None else parse_instant(made[name])
        for name in ("value", "told_value", "extreme"):
            made[name] = None if made[name] is None else Decimal(made[name])
        for name in ("raised", "looks"):
            made[name] = {key: parse_instant(text) for key, text in made[name].items()}
        made["phase"] = Phase(made["phase"])
        return cls(**made)


class Change(StrEnum):
    """What a step did, where it did something."""

    FIRING = "firing"
    RESOLVED = "resolved"
    SETTLED = "settled"
    """The new level is the usual one now; never told."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        reason: ``first``, ``further``, ``after_silence``, ``back``, ``settled``.
        tell: whether a message goes out.
        fired_at: begin of the firing that it belongs to.
        extreme: worst value of that firing.
        before: the value told before, of ``further`` and of what is over.
    """

    change: Change
    reason: str
    tell: bool
    fired_at: datetime
    extreme: Decimal | None = None
    before: Decimal | None = None


def step(old: State | None, seen: Input, policy: Policy) -> tuple[State, Event | None]:
    """Take one look into account.

    Args:
        old: None at the first look.
        seen: what the look says.
        policy: the rule's times.

    Returns:
        The new state, and what happened, if anything did.
    """
    if old is None:
        old = State(at=seen.at, since=seen.at)
        if seen.verdict is Verdict.BREACH and policy.quiet_start:
            quiet = _entered(old, Phase.FIRING, seen)
            return _looked(replace(quiet, fired_at=seen.at, extreme=seen.value), seen), None
    if seen.verdict is Verdict.NO_DATA:
        return replace(old, at=seen.at, blind_since=old.blind_since or seen.at), None
    new, event = _PHASES[old.phase](old, seen, policy)
    return _looked(new, seen), event


def _ok(old: State, seen: Input, policy: Policy) -> tuple[State, Event | None]:
    if seen.verdict is not Verdict.BREACH:
        return old, None
    return _pending(_waiting(_entered(old, Phase.PENDING, seen), seen), seen, policy, begun=True)


def _pending(
    old: State, seen: Input, policy: Policy, *, begun: bool = False
) -> tuple[State, Event | None]:
    if seen.verdict is not Verdict.BREACH:
        return _entered(old, Phase.OK, seen), None
    now = old if begun else _counted(old, seen)
    if now.count < policy.confirm or _cooling(now, seen, policy):
        return now, None
    fired = replace(_entered(now, Phase.FIRING, seen), fired_at=seen.at, extreme=seen.value)
    return _told(fired, seen, "first")


def _firing(old: State, seen: Input, policy: Policy) -> tuple[State, Event | None]:
    now = replace(old, extreme=_worse(old, seen))
    began = now.fired_at or seen.at
    if seen.verdict is Verdict.CLEAR:
        return _recovering(
            _waiting(_entered(now, Phase.RECOVERING, seen), seen), seen, policy, begun=True
        )
    if now.owed and not seen.muted and seen.verdict is Verdict.BREACH:
        return _told(now, seen, "after_silence")
    if seen.further and now.spoken and seen.verdict is Verdict.BREACH:
        now = _counted(now, seen) if now.going_further else _waiting(now, seen)
        now = replace(now, going_further=True)
        if now.count >= policy.confirm and not _cooling(now, seen, policy):
            return _told(now, seen, "further")
    else:
        now = replace(now, going_further=False, count=0, raised={})
    if policy.settle is not None and not now.going_further:
        last = max(began, now.told_at) if now.spoken and now.told_at else began
        if abs(seen.at - last) >= policy.settle:
            event = Event(Change.SETTLED, "settled", False, began, now.extreme, now.told_value)
            return replace(_over(now, seen), returned=False), event
    return now, None


def _recovering(
    old: State, seen: Input, policy: Policy, *, begun: bool = False
) -> tuple[State, Event | None]:
    now = replace(old, extreme=_worse(old, seen))
    if seen.verdict is not Verdict.CLEAR:
        return _firing(_entered(now, Phase.FIRING, seen), seen, policy)
    if not begun:
        now = _counted(now, seen)
    if now.count < policy.keep:
        return now, None
    over = replace(_over(now, seen), returned=now.spoken)
    if not now.spoken:  # it was true from the beginning: nobody was told, so nothing ends
        return over, None
    tell = not (now.owed or seen.muted)
    event = Event(
        Change.RESOLVED, "back", tell, now.fired_at or seen.at, now.extreme, now.told_value
    )
    return over, event


_PHASES = {
    Phase.OK: _ok,
    Phase.PENDING: _pending,
    Phase.FIRING: _firing,
    Phase.RECOVERING: _recovering,
}


def _told(now: State, seen: Input, reason: str) -> tuple[State, Event]:
    event = Event(
        Change.FIRING, reason, not seen.muted, now.fired_at or seen.at, now.extreme, now.told_value
    )
    new = replace(
        now, told_at=seen.at, told_value=seen.value, spoken=True, owed=seen.muted, count=0,
        raised={}, going_further=False,
    )  # fmt: skip
    return new, event


def _over(now: State, seen: Input) -> State:
    return replace(
        _entered(now, Phase.OK, seen),
        fired_at=None,
        told_value=None,
        spoken=False,
        extreme=None,
        owed=False,
    )


def _entered(old: State, phase: Phase, seen: Input) -> State:
    return replace(old, phase=phase, since=seen.at, count=0, raised={}, going_further=False)


def _waiting(now: State, seen: Input) -> State:
    """Begin to count: the sources whose looks are new must be looked at again."""
    new = {name: at for name, at in seen.looks.items() if at > now.looks.get(name, _LONG_AGO)}
    return replace(now, count=1, raised=new or dict(seen.looks))


def _counted(now: State, seen: Input) -> State:
    again = {name: seen.looks.get(name, _LONG_AGO) for name in now.raised}
    if not again or any(at <= now.raised[name] for name, at in again.items()):
        return now
    return replace(now, count=now.count + 1, raised=again)


def _cooling(now: State, seen: Input, policy: Policy) -> bool:
    """Whether the last firing is too near. A clock that was set back counts by its distance."""
    wait = policy.cooldown * (policy.patience if now.returned else 1)
    return now.told_at is not None and abs(seen.at - now.told_at) < wait


def _worse(now: State, seen: Input) -> Decimal | None:
    if seen.verdict is Verdict.CLEAR or seen.value is None:
        return now.extreme
    if now.extreme is None:
        return seen.value
    rising = seen.rising
    if rising is None:  # a change: away from where it began
        rising = now.told_value is None or seen.value >= now.told_value
    return max(now.extreme, seen.value) if rising else min(now.extreme, seen.value)


def _looked(new: State, seen: Input) -> State:
    return replace(new, at=seen.at, looks=dict(seen.looks), value=seen.value, blind_since=None)


_LONG_AGO = parse_instant("0001-01-01T00:00:00Z")


def _plain(value: object) -> object:
    if isinstance(value, datetime):
        return iso(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    return value.value if isinstance(value, StrEnum) else value
