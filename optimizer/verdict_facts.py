"""From a solved plan to the facts and the money that the verdict judges."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np

from optimizer.baselines import Baseline
from optimizer.fleet import Blocks, Counts, Market
from optimizer.pools import Pool
from optimizer.verdict import Facts, Money, SpotOffer, Verdict, verdict
from optimizer.workload import Workload


def verdict_of(
    workload: Workload,
    market: Market,
    blocks: Blocks,
    counts: Counts,
    pools: Sequence[Pool],
    compared: Sequence[Baseline],
    usd_per_month: Decimal,
    served_share: float,
) -> Verdict:
    """Judge a plan.

    Args:
        pools: every pool that fits, also those that the program did not need to see.
    """
    spot = [pool for pool in pools if pool.option.is_spot]
    firm = [pool for pool in pools if not pool.option.is_spot]
    cheapest = min(firm, key=lambda pool: pool.usd_per_replica_hour, default=None)
    facts = Facts(
        serves=workload.serves,
        stateless=workload.stateless,
        tolerates_minutes=workload.tolerates_minutes,
        availability=workload.availability,
        reload_minutes=workload.reload_minutes,
        demand=workload.demand,
        spot_zones=len({pool.zone for pool in spot}),
        offer=_offer(spot, cheapest),
        replicas_per_instance=1 if cheapest is None else cheapest.replicas,
    )
    whole = next((item for item in compared if item.name == "all_on_demand"), None)
    usd = None if whole is None else whole.usd_per_month
    return verdict(
        facts,
        Money(
            on_demand_replicas=_mean_replicas(market, blocks, counts, spot=False),
            spot_replicas=_mean_replicas(market, blocks, counts, spot=True),
            usd_per_month=float(usd_per_month),
            all_on_demand_usd_per_month=None if usd is None else float(usd),
            served_share=served_share,
        ),
    )


def _offer(spot: Sequence[Pool], firm: Pool | None) -> SpotOffer | None:
    if not spot or firm is None:
        return None
    best = min(spot, key=lambda pool: pool.usd_per_replica_hour)
    return SpotOffer(
        usd=float(best.option.usd_per_instance_hour) / best.replicas,
        usd_serving=best.usd_per_replica_hour,
        on_demand_usd=firm.usd_per_replica_hour,
        preemptions_per_hour=best.option.hazard_per_hour,
    )


def _mean_replicas(market: Market, blocks: Blocks, counts: Counts, *, spot: bool) -> float:
    chosen = np.array([pool.option.is_spot == spot for pool in market.pools], dtype=bool)
    by_block = (counts.total * np.asarray(market.replicas)[:, None])[chosen].sum(axis=0)
    return float(by_block @ blocks.hours / np.sum(blocks.hours))
