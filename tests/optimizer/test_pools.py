"""Which pools are worth a place in the program."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from optimizer.market import SupplyOption
from optimizer.pools import make_pools, worthwhile
from optimizer.workload import Limits
from tests.optimizer.fleets import option, spot, workload


def left(options: list[SupplyOption], limits: Limits | None = None) -> set[int]:
    asked = workload(limits=limits or Limits())
    return {p.option.offer_id for p in worthwhile(asked, make_pools(asked, options), 0.0)}


def test_spot_at_or_above_the_on_demand_price_has_no_place() -> None:
    assert left([option(1, "0.44"), spot(2, "0.49"), spot(3, "0.44"), spot(4, "0.28")]) == {1, 4}


def test_without_any_on_demand_spot_keeps_its_place() -> None:
    assert left([spot(2, "0.49"), spot(3, "9")]) == {2, 3}


def test_under_limits_only_the_same_machine_at_the_same_place_replaces_spot() -> None:
    offers = [option(1, "1", provider="gcp"), spot(2, "2")]
    assert left(offers) == {1}
    assert left(offers, Limits(quotas={"gcp": 4})) == {1, 2}
    same = [option(1, "1"), spot(2, "2"), spot(3, "3", gpu_count=Decimal(2))]
    assert left(same, Limits(max_gpus=8)) == {1, 3}
    assert left(same, Limits(max_zone_share=0.5)) == {1, 2, 3}, "another zone counts for itself"


@given(
    prices=st.lists(st.integers(1, 30), min_size=1, max_size=8),
    firm=st.lists(st.integers(1, 30), max_size=4),
)
def test_on_demand_and_the_cheapest_spot_below_it_always_stay(
    prices: list[int], firm: list[int]
) -> None:
    cheap = [spot(100 + k, str(usd)) for k, usd in enumerate(prices)]
    others = [option(k, str(usd)) for k, usd in enumerate(firm)]
    expected = {o.offer_id for o in others} | {
        o.offer_id
        for o in cheap
        if all(o.usd_per_instance_hour < other.usd_per_instance_hour for other in others)
    }
    assert left([*others, *cheap]) == expected
