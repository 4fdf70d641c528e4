"""How long a plan takes as the market grows: ``python -m benchmarks.plan_solve``.

A made-up market (seeded) of 500, then 5,000 offers, each planned over 24 and over 168 hours. What
to look at is the ratios within one run, and the proven gap: ten times the offers should cost far
less than ten times the time, because dominated offers leave before the program is written.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from datetime import UTC, datetime
from decimal import Decimal

from optimizer.market import SupplyOption
from optimizer.plan import solve_plan
from optimizer.workload import Workload, daily_profile

AT = datetime(2026, 12, 1, tzinfo=UTC)
CARDS = {"l4": 24, "l40s": 48, "a100-80gb-sxm": 80, "h100-sxm": 80}


def market(size: int, dice: random.Random) -> list[SupplyOption]:
    """So many offers over ten providers, forty regions and four cards; half of them spot."""
    options = []
    for number in range(size):
        gpu, vram = dice.choice(list(CARDS.items()))
        count = dice.choice([1, 2, 4, 8])
        firm = dice.uniform(0.3, 0.9) * count * vram / 24
        on_spot = dice.random() < 0.5
        usd = firm * dice.uniform(0.25, 0.7) if on_spot else firm
        region = f"r{dice.randrange(40)}"
        options.append(
            SupplyOption(
                offer_id=number,
                provider=f"p{dice.randrange(10)}",
                region=region,
                zone=f"{region}{dice.choice('abc')}" if on_spot else "",
                instance_type=f"{count}x-{gpu}",
                gpu=gpu,
                gpu_count=Decimal(count),
                purchase_option="spot" if on_spot else "on_demand",
                usd_per_instance_hour=Decimal(f"{usd:.4f}"),
                vram_gib=Decimal(vram),
                vram_usable_gib=Decimal(vram) * Decimal("0.93"),
                price_as_of=AT,
                source_url="https://prices.example",
                hazard_per_hour=dice.uniform(0.05, 1.0) if on_spot else 0.0,
                hazard_basis="made up",
                drought_hours=dice.uniform(0.3, 2.0) if on_spot else 0.0,
            )
        )
    return options


def seconds(offers: int, hours: int, seed: int) -> tuple[float, float]:
    """Solve one plan; return (seconds, proven relative gap)."""
    dice = random.Random(seed)
    day = daily_profile(4, 30)
    days = [1.0] if hours == 24 else [1.0, 0.97, 1.02, 0.99, 0.95, 0.7, 0.65]
    demand = tuple(value * scale for scale in days for value in day)
    workload = Workload(
        name="benchmark",
        demand=demand,
        gpus=("l40s", "a100-80gb-sxm", "h100-sxm"),
        availability=0.99,
        reload_minutes=4.0,
    )
    options = market(offers, dice)
    start = time.perf_counter()
    plan = solve_plan(workload, options, snapshot_id="benchmark", prices_as_of=AT)
    return time.perf_counter() - start, float(plan.receipt["relative_gap"])


def main() -> None:
    """Print one line per case, relative to the first."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--repeat", type=int, default=3, help="the fastest run counts")
    given = parser.parse_args()
    first: float | None = None
    for offers, hours in ((500, 24), (5000, 24), (500, 168), (5000, 168)):
        runs = [seconds(offers, hours, given.seed) for _ in range(given.repeat)]
        best, gap = min(runs)
        first = first or best
        sys.stdout.write(
            f"{offers:>6} offers x {hours:>3} h  {best:6.2f} s  {best / first:5.2f} x the first"
            f"  proven gap {gap:.3%}\n"
        )


if __name__ == "__main__":
    main()
