"""The solved example that a first visitor sees: one workload, nothing to fill in."""

from __future__ import annotations

from optimizer.workload import Workload, daily_profile

EXAMPLE_FLOOR, EXAMPLE_CEILING = 4.0, 12.0

EXAMPLE_PROVIDERS = ("gcp",)
"""A team on one cloud; most are. Other providers are a click away."""


def example_workload() -> Workload:
    """A chat model of the 8B class in FP8 on one L4 a replica, 4 replicas at night, 12 by day.

    Weights of such a model take 9.1 GB. The rate of 1 request/s and replica at 600 tokens in and
    200 out is a round figure for the example, not a measurement.
    """
    return Workload(
        name="example: chat model of the 8B class in FP8, one L4 a replica",
        demand=daily_profile(EXAMPLE_FLOOR, EXAMPLE_CEILING),
        gpus=("l4",),
        availability=0.99,
        reload_minutes=5.0,
        requests_per_second_per_replica=1.0,
        tokens_in=600,
        tokens_out=200,
        egress_gb_per_month=300.0,
        weights_gb=9.1,
    )
