"""The solved example that a first visitor sees: one workload, nothing to fill in."""

from __future__ import annotations

from optimizer.workload import Workload, daily_profile

EXAMPLE_FLOOR, EXAMPLE_CEILING = 4.0, 12.0


def example_workload() -> Workload:
    """An 8B-class chat model on one L40S a replica, 4 replicas at night, 12 in the afternoon.

    The rate of 2 requests/s and replica at 1,000 tokens in and 300 out is a round figure for the
    example, not a measurement.
    """
    return Workload(
        name="example: chat model of the 8B class, one L40S a replica",
        demand=daily_profile(EXAMPLE_FLOOR, EXAMPLE_CEILING),
        gpus=("l40s",),
        availability=0.99,
        reload_minutes=5.0,
        requests_per_second_per_replica=2.0,
        tokens_in=1000,
        tokens_out=300,
        egress_gb_per_month=500.0,
        weights_gb=16.1,
    )
