from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.market import (
    MAX_USD_PER_GPU_HOUR,
    MIN_USD_PER_GPU_HOUR,
    Failure,
    Offer,
    Parsed,
    PurchaseOption,
    Rejected,
    Tier,
    ladder,
    printable,
)
from tests.builders import T0, a_tariff, an_observation, an_offer, hour


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"provider": ""}, "provider"),
        ({"provider": "p" * 65}, "provider"),
        ({"instance_type": ""}, "instance_type"),
        ({"instance_type": "a\x00b"}, "instance_type"),
        ({"region": ""}, "region"),
        ({"region": "r" * 201}, "region"),
        ({"zone": "a\nb"}, "zone"),
        ({"gpu": "g" * 65}, "gpu"),
        ({"currency": "US dollars"}, "currency"),
        ({"currency": "EUR"}, "native_price_per_hour"),
        ({"gpu_count": "0"}, "gpu_count"),
        ({"gpu_count": "-1"}, "gpu_count"),
        ({"gpu_count": "0.0004"}, "gpu_count"),
        ({"gpu_count": "1025"}, "gpu_count"),
        ({"vram_gib": "0.5"}, "vram_gib"),
        ({"vram_gib": "81920"}, "vram_gib"),
        ({"vcpu": 0}, "vcpu"),
        ({"vcpu": -8}, "vcpu"),
        ({"ram_gib": "0"}, "ram_gib"),
        ({"ram_gib": "1e6"}, "ram_gib"),
        ({"usd_per_hour": "0"}, "implausible price"),
        ({"usd_per_hour": "-2"}, "implausible price"),
        ({"usd_per_hour": "0.0009"}, "implausible price"),
        ({"usd_per_hour": "200.01"}, "implausible price"),
        ({"gpu_count": "8", "usd_per_hour": "0.007"}, "implausible price"),
        ({"currency": "EUR", "native_price_per_hour": "0"}, "native_price_per_hour"),
        ({"currency": "EUR", "native_price_per_hour": "-1"}, "native_price_per_hour"),
        ({"currency": "IDR", "native_price_per_hour": "1e12"}, "native_price_per_hour"),
        ({"egress_usd_per_gb": "-0.01"}, "egress_usd_per_gb"),
        ({"ingress_usd_per_gb": "11"}, "ingress_usd_per_gb"),
        ({"min_term_hours": -1}, "min_term_hours"),
        ({"observed_at": datetime(2026, 1, 1)}, "without a zone"),  # noqa: DTZ001 - the fault
    ],
)
def test_an_offer_refuses_nonsense_and_names_it(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        an_offer(**changes)


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "-Infinity"])
@pytest.mark.parametrize(
    "name",
    ["gpu_count", "vram_gib", "ram_gib", "usd_per_hour", "native_price_per_hour",
     "egress_usd_per_gb", "ingress_usd_per_gb"],
)  # fmt: skip
def test_an_offer_refuses_what_is_no_number(name: str, value: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is not a finite number"):
        an_offer(**{name: value})


ANY_DECIMAL = st.decimals(allow_nan=True, allow_infinity=True)
ANY_TEXT = st.text(max_size=250)


@given(
    usd=ANY_DECIMAL,
    count=ANY_DECIMAL,
    vram=ANY_DECIMAL,
    ram=st.none() | ANY_DECIMAL,
    vcpu=st.none() | st.integers(),
    native=st.none() | ANY_DECIMAL,
    egress=st.none() | ANY_DECIMAL,
    texts=st.fixed_dictionaries(
        dict.fromkeys(("provider", "instance_type", "region", "zone", "currency"), ANY_TEXT)
    ),
)
def test_whatever_is_put_in_an_offer_is_plausible_or_refused(
    usd: Decimal,
    count: Decimal,
    vram: Decimal,
    ram: Decimal | None,
    vcpu: int | None,
    native: Decimal | None,
    egress: Decimal | None,
    texts: dict[str, str],
) -> None:
    try:
        offer = an_offer(
            usd_per_hour=usd, gpu_count=count, vram_gib=vram, ram_gib=ram, vcpu=vcpu,
            native_price_per_hour=native, egress_usd_per_gb=egress, **texts,
        )  # fmt: skip
    except ValueError:
        return
    _assert_plausible(offer)


@given(
    per_gpu=st.decimals(min_value=MIN_USD_PER_GPU_HOUR, max_value=MAX_USD_PER_GPU_HOUR, places=6),
    count=st.decimals(min_value=Decimal("0.001"), max_value=1024, places=3),
)
def test_a_plausible_price_is_accepted(per_gpu: Decimal, count: Decimal) -> None:
    offer = an_offer(usd_per_hour=per_gpu * count, gpu_count=count)
    _assert_plausible(offer)
    assert offer.gpu_count == count


def _assert_plausible(offer: Offer) -> None:
    assert MIN_USD_PER_GPU_HOUR <= offer.usd_per_gpu_hour <= MAX_USD_PER_GPU_HOUR
    assert Decimal("0.001") <= offer.gpu_count <= 1024
    assert 1 <= offer.vram_gib <= 2048
    assert offer.native_price_per_hour is not None
    assert offer.native_price_per_hour > 0
    assert offer.offer_id
    for text in (offer.provider, offer.instance_type, offer.region, offer.zone, offer.currency):
        assert text.isprintable()


def test_what_a_source_does_not_say_has_an_explicit_value() -> None:
    offer = an_offer()
    assert (offer.region, offer.zone, offer.availability.value) == ("*", "", "unknown")
    assert offer.offer_id == offer.instance_type
    assert offer.native_price_per_hour == offer.usd_per_hour
    assert None not in dataclasses.astuple(offer.key)


def test_the_key_is_the_same_for_the_same_offer_at_another_time_and_price() -> None:
    offer = an_offer(gpu_count="2")
    later = an_offer(
        gpu_count="2.000", usd_per_hour="9", observed_at=hour(99), note="x", offer_id="7",
        source_url="https://elsewhere.example", vcpu=4, ram_gib="1",
    )  # fmt: skip
    assert offer.key == later.key
    assert hash(offer.key) == hash(later.key)
    assert len({offer.key: 1, later.key: 2}) == 1


@pytest.mark.parametrize(
    "changes",
    [{"provider": "rival"}, {"tier": Tier.COMMUNITY}, {"region": "eu"}, {"zone": "eu-1a"},
     {"instance_type": "x"}, {"gpu": "l4"}, {"gpu_count": "2"},
     {"purchase_option": PurchaseOption.SPOT}],
)  # fmt: skip
def test_the_key_tells_offers_apart(changes: dict[str, Any]) -> None:
    assert an_offer().key != an_offer(**changes).key


@given(count=st.decimals(min_value=Decimal("0.001"), max_value=1024, places=5))
def test_a_gpu_count_is_kept_to_a_thousandth_so_that_keys_are_stable(count: Decimal) -> None:
    offer = an_offer(gpu_count=count, usd_per_hour=count)
    again = an_offer(gpu_count=offer.gpu_count, usd_per_hour=count)
    assert offer.key == again.key
    assert abs(offer.gpu_count - count) <= Decimal("0.0005")


def test_times_are_kept_in_utc() -> None:
    at = T0.astimezone(timezone(timedelta(hours=-8)))
    assert an_offer(observed_at=at).observed_at.tzinfo is UTC
    assert a_tariff(observed_at=at).observed_at == T0


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"unit": "TB"}, "unit"),
        ({"region": ""}, "region"),
        ({"region": "a\x00"}, "region"),
        ({"destination": "d" * 65}, "destination"),
        ({"free_gb_per_month": Decimal(-1)}, "free_gb_per_month"),
        ({"free_gb_per_month": Decimal("NaN")}, "free_gb_per_month"),
        ({"tiers": ()}, "at least one tier"),
        ({"tiers": a_tariff(("0", "1"), ("5", "1")).tiers[1:]}, "starts at 5"),
        ({"tiers": a_tariff().tiers * 2}, "no end|expected|starts"),
    ],
)
def test_a_tariff_refuses_nonsense(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        a_tariff(**changes)


@pytest.mark.parametrize("price", ["-0.01", "11", "NaN", "Infinity"])
def test_a_step_refuses_a_price_that_is_none(price: str) -> None:
    with pytest.raises(ValueError, match="usd_per_gb"):
        a_tariff(("0", price))


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"low": Decimal("0.2")}, "out of order"),
        ({"low": Decimal(-1)}, "out of order"),
        ({"high": Decimal("NaN")}, "high"),
        ({"instance_type": ""}, "instance_type"),
        ({"zone": "\x00"}, "zone"),
    ],
)
def test_an_observation_refuses_nonsense(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        an_observation(**changes)


def test_a_ladder_is_built_from_steps_in_any_order_and_refuses_contradictions() -> None:
    steps = [(Decimal(100), Decimal("0.1")), (Decimal(0), None), (Decimal(100), Decimal("0.1"))]
    assert [(t.from_gb, t.to_gb, t.usd_per_gb) for t in ladder(steps)] == [
        (Decimal(0), Decimal(100), None),
        (Decimal(100), None, Decimal("0.1")),
    ]
    with pytest.raises(ValueError, match="two prices at 100"):
        ladder([*steps, (Decimal(100), Decimal("0.2"))])
    for wrong in ([], [(Decimal(1), Decimal(1))]):
        with pytest.raises(ValueError, match="starts at 0"):
            ladder(wrong)


@given(text=st.text(), limit=st.integers(1, 400))
def test_excerpts_are_printable_and_short(text: str, limit: int) -> None:
    cut = printable(text, limit)
    assert cut.isprintable()
    assert len(cut) <= limit
    assert len(cut) == min(len(text), limit)


def test_rejections_count_rows_and_cut_what_they_quote() -> None:
    item = Rejected("bad", "d" * 999, "e\n" * 999)
    assert (len(item.detail), len(item.excerpt)) == (300, 300)
    assert Failure("bad", "a\x00b").detail == "a b"
    with pytest.raises(ValueError, match="count"):
        Rejected("bad", count=0)
    whole, part = Parsed(rejected=[Rejected("a", count=2)]), Parsed(rejected=[Rejected("b")])
    whole.merge(part)
    assert whole.rejected_rows == 3
