"""The default price rules on part of the real histories: quiet where prices are, awake where not.

All of it is replayed by ``python -m benchmarks.alert_noise``; figures in docs/results.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest

from benchmarks.alert_noise import (
    CONFIRMED,
    NAMED,
    REGIONAL,
    caught,
    marketplace,
    noise,
    plain_rule,
    price_history,
    price_rules,
    probes,
    replay,
)
from notify.rules import Rule
from tests.shared import shared

pytestmark = pytest.mark.shared


def rule(name: str) -> Rule:
    return next(item for item in price_rules() if item.name == name)


@pytest.fixture(scope="module")
def data() -> Path:
    return shared("data")


def test_a_marketplace_that_flaps_is_told_at_most_once_a_month(data: Path) -> None:
    looks = list(marketplace(data))[:500]
    for each in price_rules():
        result = replay(each, looks)
        found = noise(result.firing, result)
        assert found.quiet_months >= 10
        assert found.worst_quiet <= 1
        assert found.per_quiet_month < 0.2
        assert noise(plain_rule(result.medians), result).worst_quiet >= 5, "it does flap"


def test_a_rise_by_thirty_percent_is_told_at_the_first_look_that_confirms_it(data: Path) -> None:
    result = replay(rule(REGIONAL), probes(data))
    for series, begins in NAMED["DigitalOcean probes, 2026"].items():
        assert [caught(result, series, begin) for begin in begins] == [CONFIRMED]
    assert noise(result.firing, result).worst_quiet <= 1


def test_four_years_of_one_spot_market_are_told_move_by_move(data: Path) -> None:
    ((series, begins),) = NAMED["GCP list, 2022-2026"].items()

    def kept(row: Mapping[str, str]) -> bool:
        names = ("us-central1", "a3-highgpu-8g", "spot")
        return (row["region"], row["instance_type"], row["purchase_option"]) == names

    looks = partial(price_history, data, "Cyclenerd/google-cloud-pricing-cost-calculator", kept)
    result = replay(rule(REGIONAL), looks())
    assert [caught(result, series, begin) for begin in begins] == [CONFIRMED] * 4
    # The four moves, and the rise of 2026 in steps of 10 % at least.
    assert [f"{at:%Y-%m-%d}" for _, at in result.firing] == [
        "2024-07-11", "2024-11-01", "2025-03-17", "2026-01-29",
        "2026-03-25", "2026-04-30", "2026-06-18", "2026-07-09",
    ]  # fmt: skip
