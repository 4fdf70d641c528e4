"""From stored offers to choices: the only module here that knows the database.

Stale, suspect, ended and non-firm prices do not enter; how many were left out, and why, goes
along so that the plan can say so.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from core.clock import iso
from core.errors import DataError
from core.freshness import Freshness
from core.market import ANYWHERE, Accelerator, Availability, EgressTariff, PurchaseOption
from db.egress import tariffs
from db.engine import Session
from db.events import read_events
from db.offers import current_offers, default_origin, newest_seen, snapshot_id
from db.records import OfferFilter, Origin, StoredOffer
from optimizer.billing import RULES
from optimizer.hazard import Pool, PoolHazard, hazards
from optimizer.market import SupplyOption
from optimizer.selection import Selection
from optimizer.shrink import PUBLIC_PRIOR, Count, Hazard, prior_of, shrunk
from optimizer.slot_risk import (
    PRIOR_BASIS,
    PRIOR_DROUGHT_BASIS,
    PRIOR_DROUGHT_HOURS,
    PRIOR_HAZARD_PER_HOUR,
)

PLANNED = (PurchaseOption.ON_DEMAND.value, PurchaseOption.SPOT.value)
OLDEST_OF_SNAPSHOT = timedelta(days=183)
STALE = "stale"

ONE_MACHINE_EACH = frozenset({"vastai"})
"""Marketplaces of which each offer is a slice of one machine: there is one of it."""

_PUBLIC = shrunk(Count(0, 0.0))
"""What a pool is planned with of which nothing is on record."""

_MACHINE = re.compile(r"machine \d+")
_USABLE = frozenset({Freshness.FRESH, Freshness.AGEING, Freshness.SNAPSHOT})


@dataclass(frozen=True, slots=True)
class Supply:
    """Choices, and which state of the market they are.

    Attributes:
        left_out: how many offers were not taken, by reason.
        refused: the reason against each of those offers, by id.
    """

    options: tuple[SupplyOption, ...]
    origin: Origin
    snapshot_id: str
    prices_as_of: datetime | None
    left_out: Mapping[str, int] = field(default_factory=dict)
    refused: Mapping[int, str] = field(default_factory=dict)

    def require_prices(self) -> None:
        """Refuse to plan where prices are missing or all too old.

        Raises:
            DataError: nothing is stored, or every offer that was asked for is stale.
        """
        if self.prices_as_of is None:
            raise DataError(
                "no prices are stored yet; run 'spotfloor scrape run' or 'spotfloor up'"
            )
        stale = self.left_out.get(STALE, 0)
        if stale and not self.options:
            raise DataError(
                f"all prices that this could be planned on are stale ({stale} offers; the newest"
                f" price is of {iso(self.prices_as_of)}); run 'spotfloor scrape run'"
            )


def read_supply(
    session: Session,
    now: datetime,
    *,
    gpus: Sequence[str] = (),
    providers: Sequence[str] = (),
    regions: Sequence[str] = (),
    community: bool = False,
    origin: Origin | None = None,
) -> Supply:
    """Read what can be planned with.

    Args:
        gpus, providers, regions: restrict the choice; empty = all.
        community: also take private hosts of marketplaces.
        origin: ``live`` or ``snapshot``; None = live where there is any.
    """
    chosen = origin or default_origin(session)
    selection = OfferFilter(
        gpus=gpus, providers=providers, regions=regions, purchase_options=PLANNED, origin=chosen
    )
    ladders = _ladders(session)
    own = hazards(read_events(session), now)
    priors = _priors(own)
    options: list[SupplyOption] = []
    refused: dict[int, str] = {}
    as_of = newest_seen(session, chosen)
    oldest = as_of - OLDEST_OF_SNAPSHOT if as_of is not None and chosen == "snapshot" else None
    for offer in current_offers(session, now, selection):
        if reason := _reason_against(offer, oldest, community=community):
            refused[offer.id] = reason
            continue
        options.append(_with_record(_option(offer, ladders), own, priors))
    return Supply(
        tuple(options),
        chosen,
        snapshot_id(session, chosen),
        as_of,
        dict(Counter(refused.values())),
        refused,
    )


def every_offer(session: Session, now: datetime, origin: Origin) -> list[tuple[SupplyOption, str]]:
    """Read all offers of whole GPUs, each with why its price must not be planned with, or "".

    Whose tier or provider was asked for is no matter here.
    """
    ladders, own = _ladders(session), hazards(read_events(session), now)
    priors = _priors(own)
    as_of = newest_seen(session, origin)
    oldest = as_of - OLDEST_OF_SNAPSHOT if as_of is not None and origin == "snapshot" else None
    offers = current_offers(session, now, OfferFilter(purchase_options=PLANNED, origin=origin))
    return [
        (
            _with_record(_option(offer, ladders), own, priors),
            _reason_against(offer, oldest, community=True),
        )
        for offer in offers
        if offer.accelerator == Accelerator.GPU.value
    ]


def select_supply(
    session: Session, now: datetime, selection: Selection, *, gpus: Sequence[str] = ()
) -> Supply:
    """Read what a plan's selection gives now, at the newest prices.

    Prices on another basis are figures over time, which ``pricing.basis`` works out.
    """
    return read_supply(
        session,
        now,
        gpus=gpus,
        providers=selection.providers,
        regions=selection.regions,
        community=selection.community,
        origin=selection.origin,
    )


def _reason_against(offer: StoredOffer, oldest: datetime | None, *, community: bool) -> str:
    """Why an offer must not enter a plan, or ""."""
    if offer.accelerator != Accelerator.GPU.value or offer.gpu_count < 1:
        return "not a whole GPU"
    if offer.freshness is Freshness.ENDED:
        return "no longer sold"
    if offer.freshness not in _USABLE:
        return STALE
    if offer.availability == Availability.SOLD_OUT.value:
        return "sold out"
    if oldest is not None and offer.observed_at < oldest:
        return "half a year older than the rest of the snapshot"
    if not offer.firm:
        return "not a firm price"
    if offer.tier == "community" and not community:
        return "community host"
    return ""


def _option(offer: StoredOffer, ladders: Mapping[tuple[str, str], EgressTariff]) -> SupplyOption:
    spot = offer.purchase_option == PurchaseOption.SPOT.value
    one = offer.provider in ONE_MACHINE_EACH
    return SupplyOption(
        offer_id=offer.id,
        provider=offer.provider,
        tier=offer.tier,
        region=offer.region,
        zone=offer.zone,
        instance_type=offer.instance_type,
        gpu=offer.gpu,
        gpu_count=offer.gpu_count,
        purchase_option=offer.purchase_option,
        usd_per_instance_hour=offer.usd_per_hour,
        vram_gib=offer.vram_gib,
        vram_usable_gib=offer.vram_usable_gib,
        price_as_of=offer.observed_at,
        source_url=offer.source_url,
        freshness=offer.freshness.value,
        availability=offer.availability,
        egress_usd_per_gb=offer.egress_usd_per_gb,
        ingress_usd_per_gb=offer.ingress_usd_per_gb,
        egress=_ladder_of(offer, ladders),
        hazard_per_hour=PRIOR_HAZARD_PER_HOUR if spot else 0.0,
        hazard_basis=PRIOR_BASIS if spot else "on-demand: taken as not preempted",
        hazard_interval=(_PUBLIC.low, _PUBLIC.high) if spot else None,
        drought_hours=PRIOR_DROUGHT_HOURS if spot else 0.0,
        price_row=offer.price_row,
        drought_basis=PRIOR_DROUGHT_BASIS if spot else "",
        billing=RULES.get(offer.provider),
        stock=1 if one else None,
        machine=_machine(offer) if one else "",
    )


def _machine(offer: StoredOffer) -> str:
    """The machine that an ask is a slice of; its source states it in the note."""
    found = _MACHINE.search(offer.note)
    return f"{offer.provider} {found[0] if found else offer.instance_type}"


def _ladder_of(
    offer: StoredOffer, ladders: Mapping[tuple[str, str], EgressTariff]
) -> EgressTariff | None:
    """The tariff of the offer's region, else of its machine type (allowances by size), else of
    the whole provider.
    """
    places = (offer.region, offer.instance_type, ANYWHERE)
    keys = [(offer.provider, place) for place in places]
    return next((ladders[key] for key in keys if key in ladders), None)


def _priors(own: Mapping[Pool, PoolHazard]) -> dict[str, Hazard]:
    """By provider, the hazard of a pool without a record where other pools of it have one."""
    counts: dict[str, list[Count]] = {}
    for pool, found in own.items():
        counts.setdefault(pool[0], []).append(Count(found.losses, found.hours_up))
    priors = {provider: prior_of(known, provider) for provider, known in counts.items()}
    return {
        provider: shrunk(Count(0, 0.0), prior)
        for provider, prior in priors.items()
        if prior is not PUBLIC_PRIOR
    }


def _with_record(
    option: SupplyOption, own: Mapping[Pool, PoolHazard], priors: Mapping[str, Hazard]
) -> SupplyOption:
    """Take hazard and droughts from the user's own record of this pool, if there is any, else the
    hazard from that of the provider's other pools.

    A record without a zone stands for the region; one of another zone says nothing.
    """
    if not option.is_spot:
        return option
    pool = (option.provider, option.instance_type, option.region)
    found = own.get((*pool, option.zone)) or own.get((*pool, ""))
    if found is None or found.hours_up <= 0:
        prior = priors.get(option.provider)
        return option if prior is None else _planned(option, prior, prior.source_with_interval)
    option = _planned(option, found.planned, found.basis)
    drought = found.drought
    return replace(
        option,
        hazard_losses=found.losses,
        hazard_hours=found.hours_up,
        drought_hours=drought.hours,
        drought_basis=drought.source,
        drought_interval=(drought.low, drought.high),
        droughts_seen=drought.seen,
    )


def _planned(option: SupplyOption, hazard: Hazard, basis: str) -> SupplyOption:
    return replace(
        option,
        hazard_per_hour=hazard.per_hour,
        hazard_basis=basis,
        hazard_interval=(hazard.low, hazard.high),
    )


# Which of a provider's network products a planner bills when the user names none: the default
# one. Google's premium tier depends on the clients' place; the source's own continent is taken.
_DEFAULT_TIERS = (
    ("internet", "internet"),
    ("routing_preference_microsoft", "internet"),
    ("premium", "americas"),
    ("standard", "internet"),
)


def _ladders(session: Session) -> dict[tuple[str, str], EgressTariff]:
    """The tariff that applies by default, by (provider, region); live before snapshot."""
    best: dict[tuple[str, str], tuple[int, EgressTariff]] = {}
    for item in tariffs(session):
        tariff = item.tariff
        kind = (tariff.network_tier, tariff.destination)
        if kind not in _DEFAULT_TIERS:
            continue
        rank = _DEFAULT_TIERS.index(kind) * 2 + (item.origin != "live")
        key = (tariff.provider, tariff.region)
        if key not in best or rank < best[key][0]:
            best[key] = (rank, tariff)
    return {key: tariff for key, (_, tariff) in best.items()}
