"""What a digest is made of, as plain data.

Money is USD per GPU-hour unless a name says otherwise, as Decimal with at most six places; changes
are shares (-0.06 is a fall by 6 %) with at most six places.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Literal


@dataclass(frozen=True, slots=True)
class Place:
    """One offer, named.

    Attributes:
        offer: its id, which ``prices history`` and the receipt use.
        resold_from: the cloud behind it where the source resells; "" = its own.
    """

    offer: int
    provider: str
    region: str
    zone: str
    instance_type: str
    usd_per_gpu_hour: Decimal
    resold_from: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """One series in one week.

    Attributes:
        market: purchase option.
        tier: ``secure`` or ``community``.
        change_7d, change_30d: of matched offers; None without any.
        cheapest: the lowest week value among the offers still listed when the week closed.
        index: the chained index; 100 where the chain begins.
        spark: the chained index of the last 12 weeks, this one last; None = a gap.
        offer_ids: the receipt of the figures.
    """

    gpu: str
    gpu_name: str
    form_factor: str
    market: str
    tier: str
    median: Decimal
    p25: Decimal
    p75: Decimal
    change_7d: Decimal | None
    matched_7d: int
    change_30d: Decimal | None
    matched_30d: int
    cheapest: Place | None
    offers: int
    providers: int
    index: Decimal | None
    spark: tuple[Decimal | None, ...]
    offer_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Move:
    """A change worth a line, with its evidence.

    Attributes:
        before, after: medians over the matched offers.
        log_change: natural logarithm of their ratio.
        standing: how sure it is, a word of ``statistics.Standing``.
        z: the robust score; None with under 12 earlier weeks.
        history_weeks: earlier weekly changes it was compared with.
        matched_ids: the offers behind it.
    """

    gpu: str
    gpu_name: str
    market: str
    tier: str
    before: Decimal
    after: Decimal
    change: Decimal
    log_change: float
    standing: str
    z: float | None
    history_weeks: int
    offers: int
    providers: int
    matched_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class ListChange:
    """A provider changed a price of its list."""

    provider: str
    gpu: str
    gpu_name: str
    before: Decimal
    after: Decimal
    change: Decimal
    regions: tuple[str, ...]
    offer_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Group:
    """New or vanished offers of one provider, card and market.

    Attributes:
        cheapest: the lowest price among them: the first of new ones, the last of vanished ones.
    """

    provider: str
    gpu: str
    gpu_name: str
    market: str
    count: int
    cheapest: Decimal
    offer_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Turnover:
    """Offers that came or went.

    Attributes:
        total: how many offers.
        groups: the first of them, by how many providers' offers there are in the series.
        more_groups: groups left out.
    """

    total: int
    groups: tuple[Group, ...]
    more_groups: int = 0


@dataclass(frozen=True, slots=True)
class Spread:
    """The widest ratio between providers: each with its cheapest offer of one series."""

    gpu: str
    gpu_name: str
    market: str
    tier: str
    low: Place
    high: Place
    ratio: Decimal
    providers: int


@dataclass(frozen=True, slots=True)
class Discount:
    """The largest spot discount: the same machine of one provider in one region."""

    gpu: str
    gpu_name: str
    spot: Place
    on_demand: Place
    share: Decimal


@dataclass(frozen=True, slots=True)
class PlanLine:
    """A saved plan, re-priced.

    Attributes:
        before_usd_per_month: at the last look before this week, else when it was saved.
        usd_per_month: at the newest look of the week; None = an offer of it is gone.
        best_usd_per_month: the best fleet at that look; None = there is none.
        still_best: None = not looked at this week.
    """

    plan: str
    name: str
    before_usd_per_month: Decimal
    usd_per_month: Decimal | None
    best_usd_per_month: Decimal | None
    still_best: bool | None
    at: datetime | None


@dataclass(frozen=True, slots=True)
class SourceWeek:
    """What looking at one provider came to.

    Attributes:
        good, suspect, failed: runs of the week.
        last_good: the newest believed look up to the digest; None = none in the week.
        run_ids: first and last run of the week, the receipt.
        stale: longer unseen at the end than its timetable allows.
        offers: offers of it that count.
    """

    provider: str
    good: int
    suspect: int
    failed: int
    last_good: datetime | None
    run_ids: tuple[int, int] | None
    stale: bool
    offers: int


@dataclass(frozen=True, slots=True)
class Outlier:
    """An offer left out because its price is far from its series."""

    place: Place
    gpu: str
    gpu_name: str
    market: str
    series_median: Decimal


@dataclass(frozen=True, slots=True)
class Quality:
    """What the figures rest on.

    Attributes:
        excluded: offers left out, by reason: ``stale``, ``suspect``, ``sold_out``, ``not_firm``,
            ``ended``, ``outlier``, ``snapshot``.
        known_share: share of the offers' hours in the week in which their price was known.
        told: providers with an offer that counts; of ``sources`` providers.
    """

    sources: tuple[SourceWeek, ...] = ()
    told: int = 0
    offers: int = 0
    known_share: Decimal | None = None
    excluded: dict[str, int] = field(default_factory=dict)
    outliers: tuple[Outlier, ...] = ()


@dataclass(frozen=True, slots=True)
class Correction:
    """A figure that an earlier revision told differently; None = it was, or is, not there."""

    week: str
    revision: int
    gpu: str
    gpu_name: str
    market: str
    tier: str
    figure: Literal["median", "change_7d"]
    was: Decimal | None
    now: Decimal | None
