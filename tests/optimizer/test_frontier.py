"""What each served share costs."""

from __future__ import annotations

from decimal import Decimal

import pytest

from core.errors import InputError
from optimizer.frontier import frontier
from tests.optimizer.fleets import option, spot, workload


def test_more_served_never_costs_less_and_each_point_keeps_its_target() -> None:
    options = [
        option(1, "2.00"),
        *(spot(k, "0.50", zone=f"z{k}", hazard_per_hour=0.05) for k in range(2, 5)),
    ]
    found = frontier(workload(), options, (0.999, 0.9, 0.99))
    assert [point.target for point in found] == [0.9, 0.99, 0.999]
    costs = [point.usd_per_month for point in found]
    assert all(cost is not None for cost in costs)
    assert costs == sorted(costs, key=lambda cost: cost or Decimal(0))
    assert costs[0] != costs[-1]
    for point in found:
        assert point.served_share is not None
        assert point.served_share >= point.target - 1e-6


def test_on_demand_alone_costs_the_same_at_every_share_it_serves_whole() -> None:
    # 1 replica in all hours at 2 USD: 2 * 730 = 1,460 USD a month, whatever part is asked for
    # above what no instance at all would leave out.
    found = frontier(workload(demand=(1.0,) * 24), [option(1, "2.00")], (0.99, 0.999))
    assert {point.usd_per_month for point in found} == {Decimal("1460.00")}


def test_a_share_that_no_fleet_reaches_has_no_price() -> None:
    found = frontier(workload(), [spot(1, "0.3", hazard_per_hour=0.02)], (0.5, 0.9999))
    assert found[0].usd_per_month is not None
    assert found[1].usd_per_month is None
    assert found[1].to_json() == {"target": 0.9999, "usd_per_month": None, "served_share": None}


@pytest.mark.parametrize("targets", [(), (1.0,), (0.0,), (float("nan"),)])
def test_a_target_that_is_no_share_is_refused(targets: tuple[float, ...]) -> None:
    with pytest.raises(InputError, match="target"):
        frontier(workload(), [option(1, "1")], targets)
