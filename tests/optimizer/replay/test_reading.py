"""Trace files and request files as arrays: worked cases, and the published statistics."""

from __future__ import annotations

import gzip

import numpy as np
import pytest

from core.errors import InputError
from optimizer.replay.demand import Rates, constant, daily, load_of, read_rates, wanted_replicas
from optimizer.replay.traces import (
    TraceSet,
    read_fleet_counts,
    read_fleet_events,
    read_trace_sets,
)
from tests.optimizer.replay.cases import pearson
from tests.shared import shared

INDEX = (
    "trace_id,kind,region,zone,accelerator,accel_per_node,gap_seconds,"
    "aligned_start_tick,aligned_n_ticks,source\n"
    "a,preemption,r1,r1a,V100,1,300,0,3,o/r:preemption/set/a.json\n"
    "b,preemption,r2,r2a,V100,1,300,2,4,o/r:preemption/set/b.json\n"
)
RUNS = "trace_id,start_tick,n_ticks,value\na,0,2,4\na,2,1,1\nb,0,3,2\nb,3,3,0\n"


def test_runs_are_expanded_aligned_and_cut_to_the_common_window() -> None:
    found = read_trace_sets(INDEX.encode(), gzip.compress(RUNS.encode()))
    traces = found["preemption/set/V100x1"]
    assert traces.capacity.tolist() == [[4, 2], [4, 0], [1, 0]]
    assert traces.zones == ("r1a", "r2a")
    assert traces.hours == 0.25
    assert traces.scaled(50).capacity.tolist() == [[4, 2], [4, 0], [1, 0]]  # counts stay
    assert traces.only(["r2a"]).window(0, 1).capacity.tolist() == [[2]]


def test_a_zone_of_ones_and_noughts_may_be_read_as_many_or_none() -> None:
    traces = TraceSet(
        name="t", kind="availability", gap_s=60, zones=("a",), regions=("r",),
        capacity=np.array([[1], [0]]),
    )  # fmt: skip
    assert traces.scaled(50).capacity.tolist() == [[50], [0]]
    assert traces.all_down == 0.5


def test_equal_traces_count_once() -> None:
    runs = "trace_id,start_tick,n_ticks,value\na,0,3,1\nb,0,2,0\nb,2,3,1\nb,5,1,0\n"
    found = read_trace_sets(INDEX.encode(), runs.encode())["preemption/set/V100x1"]
    assert (found.zones, found.duplicates) == (("r1a", "r2a"), ())
    same = INDEX.replace(",2,4,", ",2,3,")
    found = read_trace_sets(same.encode(), runs.encode())["preemption/set/V100x1"]
    assert (found.zones, found.duplicates) == (("r1a",), ("r2a",))


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        (RUNS.replace("a,2,1,1", "a,3,1,1"), "run at tick 3 where 2 is due"),
        (RUNS.replace("value", "level"), "no column 'value'"),
        (RUNS.replace("b,0,3,2\nb,3,3,0\n", ""), "no runs of trace 'b'"),
        (RUNS.replace("a,0,2,4", "a,0,2,x"), "value 'x': is not a number"),
    ],
)
def test_broken_files_are_named(runs: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_trace_sets(INDEX.encode(), runs.encode())


def test_fleet_files() -> None:
    events = (
        b"trace_id,t_seconds,event,node_id\nf,0,add,1\nf,0,add,2\nf,1800,remove,1\nf,3600,add,3"
    )
    fleet = read_fleet_events(events)["f"]
    assert (fleet.losses, fleet.node_hours) == (1, 1.5)
    counts = (
        b"trace_id,local_time,instances_running\nf,2021-12-11T11:00:00,5\n"
        b"f,2021-12-11T12:00:00,3\nf,2021-12-11T11:30:00,6\nf,2021-12-11T11:30:00,4\n"
    )
    sampled = read_fleet_counts(counts)["f"]
    assert sampled.running.tolist() == [5, 4, 3]
    assert (sampled.losses, sampled.node_hours) == (2, 4.5)


@pytest.mark.shared
def test_the_published_traces_have_their_published_statistics() -> None:
    files = [shared("data", name).read_bytes() for name in (
        "spot_traces_index.csv", "spot_traces_rle.csv.gz", "spot_traces_prices_rle.csv.gz"
    )]  # fmt: skip
    sets = read_trace_sets(*files)
    big = sets["availability/1-node/aws-02-15-2023/V100x1"]
    assert (big.ticks, len(big.zones)) == (20158, 9)
    assert round(big.all_down, 3) == 0.008
    assert round(float(big.capacity[:, 0].mean()), 4) == 0.1667
    four = sets["preemption/4-node/aws-08-03-2023/V100x1"]
    assert round(pearson(four)[0, 1], 2) == 0.55  # -0.49 when not aligned
    assert round(sets["availability/16-node/aws-08-27-2023/V100x1"].all_down, 3) == 0.136
    cpu = sets["preemption/1-node/aws-04-19-2023/none(64 vCPU)x0"]
    assert cpu.spot_usd is not None
    assert 1.1 < cpu.spot_usd.min() < cpu.spot_usd.max() < 1.9
    assert sets["preemption/1-node/gcp-04-30-2023/none(88 vCPU)x0"].duplicates == (
        "us-central1-b",
        "us-central1-c",
    )
    fleet = read_fleet_events(shared("data", "spot_fleet_events_bamboo.csv.gz").read_bytes())
    p3 = fleet["bamboo_aws_p3"]
    assert (p3.losses, round(p3.losses / p3.node_hours, 2)) == (167, 0.61)
    counted = read_fleet_counts(shared("data", "spot_fleet_counts_bamboo.csv.gz").read_bytes())
    assert counted["bamboo_gcp_a100x1_us-east1-b"].losses == 154


def test_requests_become_load_and_work_is_conserved() -> None:
    rows = "TIMESTAMP,ContextTokens,GeneratedTokens\n" + "".join(
        f"2023-11-16 18:{minute:02d}:{second:02d}.5,1,1\n"
        for minute, second in [(0, 0), (0, 30), (1, 0), (1, 10), (1, 20), (1, 30), (2, 5)]
    )
    rates = read_rates(rows.encode(), "file.csv")
    assert rates.per_window.tolist() == [2, 4]
    load = load_of(rates, mean=3, ticks=4, gap_s=60)
    assert load == pytest.approx([2, 4, 2, 4])  # the file is repeated
    assert load_of(rates, mean=3, ticks=2, gap_s=120) == pytest.approx([3, 3])


def test_servegen_windows_of_rate_nought_are_missing_not_silent() -> None:
    text = (
        "workload,t_start_s,window_s,req_per_s\na,0,600,2\na,600,600,0\na,1200,600,4\nb,0,600,9\n"
    )
    rates = read_rates(text.encode(), "s.csv")
    assert rates.name == "s.csv (a)"
    assert np.isnan(rates.per_window[1])
    assert load_of(rates, mean=4, ticks=3, gap_s=600) == pytest.approx([3, 3, 6])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("x,y\n1,2\n", "columns are not known"),
        ("timestamp_ms\n", "has no rows"),
        ("timestamp_ms\nabc\n", "mend the file"),
        ("workload,window_s,req_per_s\na,600,0\n", "no window has a rate above 0"),
    ],
)
def test_wrong_request_files_are_named(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_rates(text.encode(), "f")


def test_shapes_and_the_autoscaler() -> None:
    day = daily(4, 12, 24, 3600)
    assert (day[4], day[16], day.min(), day.max()) == (4, 12, 4, 12)
    assert constant(2, 3).tolist() == [2, 2, 2]
    # Up at once, down after 20 minutes, which are two ticks of ten.
    load = np.array([1.2, 3.0, 1.0, 1.0, 1.0])
    assert wanted_replicas(load, 600).tolist() == [2, 3, 3, 3, 1]
    with pytest.raises(InputError, match="load -1"):
        constant(-1, 3)
    with pytest.raises(InputError, match="no request arrives"):
        load_of(Rates("f", 60, np.zeros(2)), mean=1, ticks=2, gap_s=60)
