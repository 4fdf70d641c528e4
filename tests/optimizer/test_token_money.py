"""What tokens cost: by hand, and that the parts add up."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core import gpus
from core.errors import InputError
from optimizer import models
from optimizer.performance import Replica, Traffic
from optimizer.roofline import estimate
from optimizer.token_cost import compare, printable, token_cost, usd_per_million

REPLICA = Replica(model=models.find("Llama-3.1-8B-Instruct"), gpu=gpus.gpu("l40s"))


def test_a_dollar_an_hour_at_a_thousand_tokens_a_second_is_28_cents_a_million() -> None:
    assert printable(usd_per_million(Decimal(1), 1000)) == Decimal("0.277777778")
    assert printable(usd_per_million(Decimal("2.5"), Decimal(500))) == Decimal("1.388888889")


def test_per_thousand_is_a_thousandth_of_per_million() -> None:
    traffic = Traffic(input_tokens=1000, output_tokens=250, users=8)
    cost = token_cost(Decimal("0.9"), estimate(REPLICA, traffic), traffic)
    assert cost.per_1k(cost.total) * 1000 == cost.total


@given(
    inputs=st.integers(1, 8000), outputs=st.integers(1, 2000), users=st.integers(1, 32),
    hit=st.sampled_from([0.0, 0.3, 0.9]), used=st.sampled_from(["0.1", "0.5", "1"]),
)  # fmt: skip
def test_what_the_parts_cost_is_what_the_hour_costs(
    inputs: int, outputs: int, users: int, hit: float, used: str
) -> None:
    traffic = Traffic(input_tokens=inputs, output_tokens=outputs, users=users, hit=hit)
    speed = estimate(REPLICA, traffic)
    cost = token_cost(Decimal(2), speed, traffic, utilisation=Decimal(used))
    hour = Decimal(repr(speed.output_tokens_per_s)) * Decimal(used) * 3600 / 1_000_000
    computed = hour * inputs / outputs * (1 - Decimal(repr(hit)))
    paid = cost.output_split * hour + cost.input_split * computed
    assert float(paid) == pytest.approx(2.0, rel=1e-6)
    assert float(cost.total * hour * (1 + Decimal(inputs) / outputs)) == pytest.approx(2, rel=1e-6)


@given(used=st.decimals("0.05", "0.9", places=2))
def test_idle_hours_are_paid_for_by_the_tokens(used: Decimal) -> None:
    traffic = Traffic(input_tokens=1000, output_tokens=250, users=8)
    speed = estimate(REPLICA, traffic)
    busy = token_cost(Decimal(1), speed, traffic)
    idle = token_cost(Decimal(1), speed, traffic, utilisation=used)
    assert float(idle.total * used) == pytest.approx(float(busy.total), rel=1e-9)


def test_spot_is_compared_at_its_price_per_useful_hour() -> None:
    traffic = Traffic(input_tokens=1000, output_tokens=250, users=8)
    speed = estimate(REPLICA, traffic)
    found = compare(Decimal("0.74"), Decimal("0.25"), speed, traffic)
    assert found.spot_saving == pytest.approx(1 - Decimal("0.25") / Decimal("0.74"))
    dearer = compare(Decimal("0.44"), Decimal("0.49"), speed, traffic)
    assert dearer.spot_saving is not None
    assert dearer.spot_saving < 0
    assert compare(None, Decimal(1), speed, traffic).spot_saving is None


def test_prices_and_speeds_without_meaning_are_refused() -> None:
    traffic = Traffic(input_tokens=1000, output_tokens=250, users=8)
    speed = estimate(REPLICA, traffic)
    with pytest.raises(InputError, match="usd_per_hour -1"):
        token_cost(Decimal(-1), speed, traffic)
    with pytest.raises(InputError, match="usd_per_hour NaN"):
        token_cost(Decimal("nan"), speed, traffic)
    with pytest.raises(InputError, match="utilisation 0"):
        token_cost(Decimal(1), speed, traffic, utilisation=Decimal(0))
    with pytest.raises(InputError, match=r"tokens_per_s 0\.0"):
        usd_per_million(Decimal(1), 0.0)
