"""Each check of the quality gate: what it says of odd prices; sound ones it leaves alone."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.clock import FixedClock
from core.market import Offer, OfferKey, Parsed, PurchaseOption
from db.engine import Database, reading
from db.findings import findings_of
from db.ingest import open_prices
from db.records import Finding, MarketPrice, OpenPrice, RunState, StoredRun, Weight
from db.runs import last_look
from pricing.checks import bands, cross, moves, twins
from pricing.checks.words import name_of
from pricing.collect import RunSummary, collect
from pricing.collect import given as at_hand
from pricing.merge import merged
from pricing.quality import Evidence, judge
from pricing.recorded import primary_payloads
from pricing.registry import PROVIDERS
from pricing.snapshot import bundled
from pricing.source import Provider
from tests.builders import a_payload, a_provider, an_offer, hour
from tests.pricing.test_quality import a_run
from tests.shared import payloads

SPOT = PurchaseOption.SPOT


def stored(offers: Sequence[Offer], days: float = 0) -> dict[OfferKey, OpenPrice]:
    since = hour(0) - timedelta(days=days)
    return {o.key: OpenPrice(o.usd_per_hour, since, hour(0)) for o in offers}


def on_market(offers: Sequence[Offer]) -> list[MarketPrice]:
    return [
        MarketPrice(
            o.provider, o.instance_type, o.region, o.gpu, o.gpu_count,
            o.purchase_option.value, o.usd_per_hour,
        )
        for o in offers
    ]  # fmt: skip


def fleet(prices: Sequence[str], **changes: object) -> list[Offer]:
    return [
        an_offer(**({"instance_type": f"m{n}", "usd_per_hour": usd} | changes))
        for n, usd in enumerate(prices)
    ]


# --- bands


def test_a_band_reaches_from_the_lowest_to_the_highest_known_price_with_room() -> None:
    known = [
        an_offer(provider=f"p{n % 4}", instance_type=f"m{n}", usd_per_hour=str(2 + n / 10))
        for n in range(20)
    ]
    (band,) = bands.bands_of(known).values()
    assert (band.low, band.high) == (Decimal(2) / Decimal("2.5"), Decimal("3.9") * Decimal("1.6"))
    assert (band.offers, band.providers) == (20, 4)
    by_seller = [[2 + n / 10 for n in range(20) if n % 4 == k] for k in range(4)]
    assert float(band.typical) == statistics.median(map(statistics.median, by_seller))
    (few,) = bands.bands_of(known[:3]).values()
    assert (few.low, few.high) == (Decimal("0.5"), Decimal("8.8"))


def test_every_bundled_price_lies_within_its_own_band() -> None:
    firm = [offer for offer in bundled().offers if offer.firm]
    assert bands.outside(firm, bands.bundled_bands()) == {}
    assert len(bands.bundled_bands()) > 40


@pytest.mark.shared
@pytest.mark.parametrize("provider", PROVIDERS, ids=lambda p: p.name)
def test_the_gate_believes_every_recorded_price_list(provider: Provider) -> None:
    folder = payloads(provider.name)
    found, _ = merged(provider.parse(primary_payloads(provider, folder, hour(0))))
    told = judge(found, [], Evidence(stored={}, kind=provider.kind, now=hour(0)))
    assert (told.state, told.held_keys) == (RunState.OK, frozenset()), told.findings


def test_a_price_per_gpu_in_place_of_one_per_instance_is_named_with_the_factor() -> None:
    wrong = an_offer(gpu_count="8", usd_per_hour="2.99")
    (told,) = bands.outside([wrong], bands.bundled_bands()).values()
    assert told.weight is Weight.DOUBT
    assert "0.3738 USD per GPU-hour is outside" in told.detail
    assert "x8.00 it would be 2.99: given per GPU, not per instance?" in told.detail
    dear = an_offer(gpu_count="1", usd_per_hour="31.6")
    (told,) = bands.outside([dear], bands.bundled_bands()).values()
    assert "/8.00 it would be 3.95: given per instance, not per GPU?" in told.detail


def test_a_card_without_known_prices_has_no_band_and_a_from_price_is_not_judged() -> None:
    assert bands.outside([an_offer(gpu="l4", vram_gib=24, usd_per_hour="150")], {}) == {}
    assert bands.outside([an_offer(usd_per_hour="0.01", firm=False)], bands.bundled_bands()) == {}


@pytest.mark.parametrize(
    ("usd_of_eight", "said"), [("2", "per GPU, not per instance"), ("128", "times the GPUs")]
)
def test_machines_of_eight_that_cost_what_one_gpu_does_are_a_list_in_the_wrong_unit(
    usd_of_eight: str, said: str
) -> None:
    one = an_offer(instance_type="one", usd_per_hour="2")
    eights = [
        an_offer(instance_type=f"e{n}", gpu_count="8", usd_per_hour=usd_of_eight) for n in range(3)
    ]
    fresh = {o.key for o in [one, *eights]}
    told = bands.unit_mistake([one, *eights], fresh)
    assert told is not None
    assert said in told.detail
    assert bands.unit_mistake([one, *eights[:2]], fresh) is None, "two may be chance"
    assert bands.unit_mistake([one, *eights], set()) is None, "stored so already: answered before"
    right = [an_offer(instance_type=f"e{n}", gpu_count="8", usd_per_hour="16") for n in range(5)]
    assert bands.unit_mistake([one, *eights, *right], fresh) is None, "fewer than half"


# --- moves


def test_a_marketplace_that_stands_still_for_three_days_is_named() -> None:
    offers = fleet(["2"] * 12)
    told = moves.frozen(moves.pairs(offers, stored(offers, 3)), "marketplace", hour(0))
    assert told is not None
    assert (told.weight, told.count) == (Weight.WARN, 12)
    assert "stood still for 3.0 days" in told.detail


def test_one_change_one_new_offer_or_a_few_days_are_a_sign_of_life() -> None:
    offers = fleet(["2"] * 12)
    still = stored(offers, 30)
    lively = [
        (offers, stored(offers, 2.9), "marketplace"),
        ([*offers, an_offer(instance_type="new")], still, "marketplace"),
        ([*offers[1:], an_offer(instance_type="m0", usd_per_hour="2.01")], still, "marketplace"),
        (offers, {**still, offers[3].key: stored(offers, 1)[offers[3].key]}, "marketplace"),
        (offers[:9], still, "marketplace"),
        (offers, still, "list"),
    ]
    for listed, before, kind in lively:
        assert moves.frozen(moves.pairs(listed, before), kind, hour(0)) is None
    spots = fleet(["2"] * 12, purchase_option=SPOT)
    assert (
        moves.frozen(moves.pairs([*spots, *offers], stored(spots, 7)), "list", hour(0)) is not None
    )


# --- twins


def test_a_region_that_became_equal_to_another_is_in_doubt_and_so_is_the_other() -> None:
    def listed(region: str, usd: Sequence[str]) -> list[Offer]:
        return fleet(usd, region=region)

    east, west = ["2", "3", *["4"] * 6], ["2.5", "3.5", *["4"] * 6]
    then = [*listed("east", east), *listed("west", west)]
    before = stored(then)
    now = [*listed("east", east), *listed("west", east)]
    found = twins.twin_regions(moves.pairs(now, before), before)
    assert set(found) == {("east", "on_demand"), ("west", "on_demand")}
    assert "all 8 rows are those of east, of which 2 differed" in (
        found["west", "on_demand"].detail
    )
    assert twins.twin_regions(moves.pairs(then, before), before) == {}
    always = stored([*listed("east", east), *listed("west", east)])
    assert twins.twin_regions(moves.pairs(now, always), always) == {}, (
        "a provider may charge the same everywhere"
    )
    assert twins.twin_regions(moves.pairs(now, {}), {}) == {}, "nothing to compare with"


def test_a_provider_that_repeats_another_one_row_by_row_is_in_doubt() -> None:
    own = fleet([f"{2 + n / 10}" for n in range(10)])
    other = on_market([an_offer(**_copy(o, provider="other")) for o in own])
    fresh = {o.key for o in own}
    told = twins.twin_provider(own, other, fresh)
    assert told is not None
    assert told.subject == "other"
    assert "10 of 10 rows" in told.detail
    assert twins.twin_provider(own, other[:8], fresh) is None
    assert twins.twin_provider(own, other, set()) is None, "stored so before: answered"
    assert twins.twin_provider(own[:7], other, fresh) is None


def _copy(offer: Offer, **changes: object) -> dict[str, object]:
    return {
        "instance_type": offer.instance_type,
        "usd_per_hour": str(offer.usd_per_hour),
        **changes,
    }


# --- cross


def test_a_spot_price_above_on_demand_of_the_same_machine_is_named_and_stays() -> None:
    offers = [
        an_offer(usd_per_hour="2"),
        an_offer(usd_per_hour="2.5", purchase_option=SPOT, zone="z1"),
        an_offer(usd_per_hour="1.5", purchase_option=SPOT, zone="z2"),
        an_offer(usd_per_hour="9", purchase_option=SPOT, region="eu"),
    ]
    (told,) = cross.spot_above_on_demand(offers)
    assert told.subject.startswith("z1 ")
    assert "spot 2.5 USD per hour, on demand 2" in told.detail
    verdict = judge(Parsed(offers=offers), [], Evidence(stored={}, kind="list", now=hour(0)))
    assert (verdict.state, verdict.held_keys) == (RunState.OK, frozenset())


@given(
    st.lists(st.floats(0.5, 20), min_size=8, max_size=40),
    st.floats(0.5, 20),
)
def test_outliers_are_those_of_an_independent_reckoning(pool: list[float], price: float) -> None:
    market = [
        MarketPrice(f"p{n % 4}", "m", "*", "h100-sxm", Decimal(1), "on_demand", _dec(usd))
        for n, usd in enumerate(pool)
    ]
    own = an_offer(usd_per_hour=str(_dec(price)))
    logs = [math.log(_dec(usd)) for usd in [*pool, price]]
    middle = statistics.median(logs)
    mad = statistics.median(abs(x - middle) for x in logs)
    z = abs(logs[-1] - middle) / max(1.4826 * mad, math.log(1.1))
    assert (own.key in cross.outliers([own], market)) is (z > 5)


def _dec(value: float) -> Decimal:
    return Decimal(str(round(value, 4)))


def test_an_outlier_is_named_with_its_distance_and_the_size_of_the_pool() -> None:
    market = on_market([an_offer(provider=f"p{n % 3}", instance_type=f"m{n}") for n in range(9)])
    (told,) = cross.outliers([an_offer(usd_per_hour="6")], market).values()
    assert told.weight is Weight.NOTE
    assert "6 USD per GPU-hour, +11.5 MAD from the median 2 of 10 offers of 4 providers" in (
        told.detail
    )
    (unit,) = cross.outliers([an_offer(usd_per_hour="2", gpu_count="8")], market).values()
    assert unit.weight is Weight.WARN
    assert "x8 it is the median: given per GPU, not per instance?" in unit.detail
    assert cross.outliers([an_offer(usd_per_hour="6")], market[:6]) == {}, "too few to say"


# --- laws

odd_offers = st.lists(
    st.builds(
        an_offer,
        instance_type=st.sampled_from([f"m{n}" for n in range(12)]),
        region=st.sampled_from(["us", "eu", "ap"]),
        gpu_count=st.sampled_from(["1", "2", "4", "8"]),
        purchase_option=st.sampled_from([PurchaseOption.ON_DEMAND, SPOT]),
        usd_per_hour=st.sampled_from(["0.02", "0.3", "2", "2.5", "16", "20", "150"]),
    ),
    max_size=60,
).map(lambda offers: list({o.key: o for o in offers}.values()))


@given(odd_offers, odd_offers, st.sampled_from(["list", "marketplace"]))
def test_the_gate_holds_back_only_what_it_names_and_a_second_look_settles_it(
    before: list[Offer], now: list[Offer], kind: str
) -> None:
    first = Evidence(
        stored=stored(before), kind=kind, now=hour(1), observed_at=hour(1), market=on_market(before)
    )
    one = judge(Parsed(offers=now), [], first)
    doubts = {f.subject for f in one.findings if f.weight is Weight.DOUBT}
    if one.state is RunState.SUSPECT:
        assert one.reason in {f.rule for f in one.findings if f.weight is Weight.DOUBT}
    assert {name_of(key) for key in one.held_keys} <= doubts
    assert {" ".join(scope) for scope in one.held} <= {f.subject for f in one.findings}
    if one.state is not RunState.FAILED:
        last = a_run(one.state.value, finished_at=hour(1), observed_at=hour(1))
        second = replace(
            first, now=hour(2), observed_at=hour(2), last=last, last_findings=one.findings
        )
        two = judge(Parsed(offers=now), [], second)
        assert two.state is not RunState.SUSPECT
        assert two.held_keys == frozenset()
        assert not any(f.weight is Weight.DOUBT for f in two.findings)
        accepted = judge(Parsed(offers=now), [], replace(first, accepted=True))
        assert (accepted.state, accepted.held) == (RunState.OK, frozenset())


# --- through the database


def look(database: Database, at: float, offers: list[Offer]) -> RunSummary:
    def parse(_: object) -> Parsed:
        return Parsed(offers=offers)

    return collect(
        database,
        a_provider(parse),
        lambda _: at_hand([a_payload(at=hour(at))]),
        FixedClock(hour(at)),
    )


def found(database: Database) -> list[Finding]:
    with reading(database) as session:
        run = last_look(session, "acme", "live")
        assert isinstance(run, StoredRun)
        return findings_of(session, run.id)


def prices(database: Database) -> dict[str, Decimal]:
    with reading(database) as session:
        return {k.instance_type: v for k, v in open_prices(session, "acme", "live").items()}


def test_an_implausible_price_waits_for_a_second_look_and_keeps_the_stored_one(
    database: Database,
) -> None:
    def listed(at: float, odd: str, new: str = "3") -> list[Offer]:
        offers = fleet(["2"] * 12, observed_at=hour(at))
        return [
            *offers[:10],
            an_offer(instance_type="odd", usd_per_hour=odd, observed_at=hour(at)),
            an_offer(instance_type="new", usd_per_hour=new, observed_at=hour(at)),
        ]

    look(database, 0, listed(0, "2")[:11])
    first = look(database, 1, listed(1, "0.02", "90"))
    assert (first.state, first.reason) == (RunState.PARTIAL, "doubtful_prices")
    assert prices(database)["odd"] == 2
    assert "new" not in prices(database)
    doubts = [f for f in found(database) if f.weight is Weight.DOUBT]
    assert [f.value for f in doubts] == [Decimal("0.02"), Decimal(90)]

    early = look(database, 1.1, listed(1.1, "0.02", "90"))
    assert early.reason == "doubtful_prices"
    other = look(database, 2, listed(2, "0.02", "40"))
    assert (other.reason, prices(database)["odd"]) == ("doubtful_prices", Decimal("0.02"))
    assert other.state is RunState.OK, "all that is stored was renewed; a new price waits"
    assert "new" not in prices(database), "two looks that disagree confirm nothing"
    last = look(database, 3, listed(3, "0.02", "40"))
    assert (last.state, prices(database)["new"]) == (RunState.OK, Decimal(40))
    again = look(database, 3.05, listed(3.05, "0.02", "40"))
    assert again.state is RunState.OK, "what is stored is not doubted again"
    assert {f.weight for f in found(database) if f.rule == "outside_band"} == {Weight.WARN}


def test_a_list_in_the_wrong_unit_is_suspect_even_on_the_first_look(database: Database) -> None:
    def listed(at: float) -> list[Offer]:
        one = an_offer(instance_type="one", usd_per_hour="2.99", observed_at=hour(at))
        eights = [
            an_offer(instance_type=f"e{n}", gpu_count="8", usd_per_hour="2.99",
                     region=f"r{n}", observed_at=hour(at))
            for n in range(4)
        ]  # fmt: skip
        return [one, *eights]

    first = look(database, 0, listed(0))
    assert (first.state, first.reason) == (RunState.SUSPECT, "unit_mistake")
    assert prices(database) == {}
    second = look(database, 1, listed(1))
    assert (second.state, second.reason) == (RunState.OK, "confirmed")
    assert len(prices(database)) == 5


def test_more_like_findings_than_are_kept_are_counted(database: Database) -> None:
    offers = [
        an_offer(instance_type=f"m{n}", usd_per_hour=usd, purchase_option=option)
        for n in range(60)
        for usd, option in (("2", PurchaseOption.ON_DEMAND), ("2.5", SPOT))
    ]
    assert look(database, 0, offers).state is RunState.OK
    kept = [f for f in found(database) if f.rule == "spot_above_on_demand"]
    assert len(kept) == 51
    assert sum(f.count for f in kept) == 60
    assert kept[-1].detail == "more like these"
