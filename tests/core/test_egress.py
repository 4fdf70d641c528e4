from __future__ import annotations

import json
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.egress import bill, volume_in
from core.market import EgressTariff
from tests.builders import a_tariff
from tests.shared import shared

AWS = a_tariff(("0", "0.09"), ("10240", "0.085"), ("51200", "0.07"), ("153600", "0.05"), free="100")
AZURE = a_tariff(
    ("0", "0"), ("100", "0.087"), ("10335", "0.083"), ("51295", "0.07"), ("153695", "0.05")
)
GCP_STANDARD = a_tariff(
    ("0", "0"), ("200", "0.085"), ("10240", "0.065"), ("153600", "0.045"), unit="GiB"
)
GCP_PREMIUM = a_tariff(("0", "0"), ("1", "0.12"), ("1024", "0.11"), ("10240", "0.08"), unit="GiB")
OCI = a_tariff(("0", "0"), ("10240", "0.0085"))
OCI_AFRICA = a_tariff(("0", "0"), ("10240", "0.05"))


@pytest.mark.parametrize(
    ("tariff", "volume", "usd"),
    [
        (AWS, "0", "0"),
        (AWS, "50", "0"),
        (AWS, "1000", "81.00"),
        (AWS, "10240", "912.60"),
        (AWS, "20000", "1742.70"),
        (AWS, "200000", "13886.20"),
        (AZURE, "1000", "78.30"),
        (AZURE, "20000", "1692.64"),
        (AZURE, "200000", "13773.375"),
        (GCP_STANDARD, "1000", "68.00"),
        (GCP_STANDARD, "20000", "1487.80"),
        (GCP_PREMIUM, "1000", "119.88"),
        (GCP_PREMIUM, "20000", "1917.32"),
        (OCI, "10240", "0"),
        (OCI, "20000", "82.96"),
        (OCI, "200000", "1612.96"),
        (OCI_AFRICA, "20000", "488.00"),
    ],
)
def test_bills_of_real_ladders_come_out_to_the_cent(
    tariff: EgressTariff, volume: str, usd: str
) -> None:
    assert bill(tariff, Decimal(volume)).usd == Decimal(usd)


def test_each_step_prices_only_the_volume_inside_it() -> None:
    case = json.loads(shared("cases", "b11_egress_tiers.json").read_text(), parse_float=Decimal)
    starts = ["0", *(str(tier["up_to_gb"]) for tier in case["tiers"][:-1])]
    rungs = [(a, str(t["usd_per_gb"])) for a, t in zip(starts, case["tiers"], strict=True)]
    tariff = a_tariff(*rungs, unit=case["unit"], region=case["region"])
    told = [bill(tariff, Decimal(volume)).usd for volume in case["usage_gb"]]
    assert told == [Decimal(str(usd)) for usd in case["expected_usd"]]
    assert [step.usd for step in bill(tariff, Decimal(157_000)).by_tier] == [
        Decimal("1576.96"), Decimal("6021.12"), Decimal("12902.40"), Decimal("380.80"),
    ]  # fmt: skip


def test_a_bill_shows_allowance_and_steps() -> None:
    told = bill(AWS, Decimal(10_440))
    assert (told.volume, told.free, told.unit) == (Decimal(10_440), Decimal(100), "GB")
    assert [(s.from_gb, s.to_gb, s.volume, s.usd) for s in told.by_tier] == [
        (Decimal(0), Decimal(10240), Decimal(10240), Decimal("921.6")),
        (Decimal(10240), Decimal(51200), Decimal(100), Decimal("8.5")),
    ]


def test_an_unknown_step_makes_the_bill_unknown_only_where_it_is_needed() -> None:
    tariff = a_tariff(("0", "0.01"), ("100", None), ("200", "0.02"))
    assert bill(tariff, Decimal(100)).usd == 1
    assert bill(tariff, Decimal("100.001")).usd is None
    assert bill(tariff, Decimal(500)).usd is None
    assert [step.usd for step in bill(tariff, Decimal(150)).by_tier] == [1, None]


def test_nothing_sent_costs_nothing_even_at_an_unknown_price() -> None:
    assert bill(a_tariff(("0", None)), Decimal(0)).usd == 0
    assert bill(a_tariff(("0", None), free="10"), Decimal(10)).usd == 0


def test_a_volume_beyond_the_last_stated_step_is_unknown() -> None:
    open_ended = a_tariff(("0", "0.01"), ("100", "0.02")).tiers
    tariff = a_tariff(tiers=open_ended[:1])
    assert bill(tariff, Decimal(100)).usd == 1
    assert bill(tariff, Decimal(101)).usd is None


@pytest.mark.parametrize("volume", ["-1", "NaN", "Infinity"])
def test_a_volume_that_is_none_is_refused(volume: str) -> None:
    with pytest.raises(ValueError, match="volume"):
        bill(AWS, Decimal(volume))


def test_gb_become_gib_only_where_the_meter_counts_gib() -> None:
    assert volume_in(AWS, Decimal("1073.741824")) == Decimal("1073.741824")
    assert volume_in(GCP_STANDARD, Decimal("1073.741824")) == Decimal(1000)
    assert bill(GCP_STANDARD, volume_in(GCP_STANDARD, Decimal("1073.741824"))).usd == 68


MONEY = st.decimals(min_value=0, max_value=1, places=4, allow_nan=False)
STARTS = st.lists(st.integers(1, 5000), max_size=5, unique=True).map(sorted)


@st.composite
def ladders(draw: st.DrawFn) -> EgressTariff:
    starts = [0, *draw(STARTS)]
    free = str(draw(st.integers(0, 300)))
    return a_tariff(*((str(s), str(draw(MONEY))) for s in starts), free=free)


VOLUMES = st.decimals(min_value=0, max_value=10_000, places=3, allow_nan=False)


def cost(tariff: EgressTariff, volume: Decimal) -> Decimal:
    usd = bill(tariff, volume).usd
    assert usd is not None
    return usd


@given(tariff=ladders(), a=VOLUMES, b=VOLUMES)
def test_more_traffic_never_costs_less_and_never_more_than_the_dearest_step(
    tariff: EgressTariff, a: Decimal, b: Decimal
) -> None:
    low, high = sorted((a, b))
    dearest = max(tier.usd_per_gb or Decimal(0) for tier in tariff.tiers)
    rise = cost(tariff, high) - cost(tariff, low)
    assert 0 <= rise <= dearest * (high - low), "a jump at a step would break this"


@given(tariff=ladders(), volume=VOLUMES)
def test_steps_add_up_to_volume_and_bill(tariff: EgressTariff, volume: Decimal) -> None:
    told = bill(tariff, volume)
    assert told.free + sum(step.volume for step in told.by_tier) == volume
    assert sum(step.usd or 0 for step in told.by_tier) == told.usd


@given(tariff=ladders(), volume=st.integers(0, 6000))
def test_a_bill_is_the_sum_of_every_single_gb_at_its_own_price(
    tariff: EgressTariff, volume: int
) -> None:
    total = Decimal(0)
    for gb in range(volume - int(tariff.free_gb_per_month)):
        price = next(t.usd_per_gb for t in reversed(tariff.tiers) if t.from_gb <= gb)
        assert price is not None
        total += price
    assert cost(tariff, Decimal(volume)) == total


@given(tariff=ladders(), volume=VOLUMES, cut=st.integers(0, 5))
def test_an_unknown_step_is_never_taken_for_free(
    tariff: EgressTariff, volume: Decimal, cut: int
) -> None:
    at = min(cut, len(tariff.tiers) - 1)
    rungs = [
        (str(tier.from_gb), None if number == at else str(tier.usd_per_gb))
        for number, tier in enumerate(tariff.tiers)
    ]
    blind = a_tariff(*rungs, free=str(tariff.free_gb_per_month))
    needed = volume - min(volume, tariff.free_gb_per_month) > tariff.tiers[at].from_gb
    assert bill(blind, volume).usd == (None if needed else cost(tariff, volume))
