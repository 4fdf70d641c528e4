"""Load time: the worked cases, measured parts, and laws."""

from __future__ import annotations

import csv
import dataclasses
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import InputError
from core.units import GB, GIB
from optimizer.load_time import (
    PROVISION_SECONDS,
    READ_GB_S,
    LoadQuestion,
    Storage,
    bandwidth_gb_s,
    load_time,
    read_seconds,
    reload_time,
    savings,
)
from tests.shared import shared

SEVENTY_B = round(72.7 * GB)


def test_a_70b_in_fp8_from_local_nvme_with_warm_caches_takes_90_seconds() -> None:
    # 15 s imports, 72.7 GB at 2 GB/s = 36 s, 8 s compile, 20 s graphs, 10 s warm-up.
    found = load_time(
        LoadQuestion(
            checkpoint_bytes=SEVENTY_B, gpu_count=2, storage=Storage.NVME, provision=False,
            compile_cached=True,
        )
    )  # fmt: skip
    assert found.p50_s == pytest.approx(15 + 36.35 + 8 + 20 + 10, abs=0.1)


def test_the_same_cold_from_the_hub_takes_more_than_nine_minutes() -> None:
    # 40 s machine, 72.7 GB at 0.2 GB/s = 363 s, 36 s read, 15 + 60 + 30 + 15 s start.
    found = load_time(LoadQuestion(checkpoint_bytes=SEVENTY_B, gpu_count=2))
    assert found.p50_s == pytest.approx(40 + 363.5 + 36.35 + 120, abs=1)
    assert found.minutes == pytest.approx(9.3, abs=0.1)


@pytest.mark.parametrize(
    ("what", "gb", "storage", "seconds", "within"),
    [
        ("15 GB from gp3", 15, Storage.GP3, 48.0, 0.10),
        ("15 GB from gp3 through a streamer", 15, Storage.GP3_STREAMER, 14.3, 0.10),
        ("15 GB from io2 through a streamer", 15, Storage.IO2_STREAMER, 7.5, 0.10),
        ("405B FP8 from NVMe", 462, Storage.NVME, 235, 0.10),
        ("70B FP8 from the page cache", 70, Storage.PAGE_CACHE, 10, 0.10),
    ],
)
def test_reading_takes_what_was_measured(
    what: str, gb: float, storage: Storage, seconds: float, within: float
) -> None:
    found = read_seconds(
        LoadQuestion(checkpoint_bytes=round(gb * GB), gpu_count=8, storage=storage)
    )
    assert found == pytest.approx(seconds, rel=within), what


@pytest.mark.parametrize(("gib", "seconds"), [(15.5, 107), (25.8, 166.9), (3.88, 20.4)])
def test_pulls_from_the_hub_were_of_the_assumed_speed(gib: float, seconds: float) -> None:
    assert 0.1 <= bandwidth_gb_s(round(gib * GIB), seconds) <= 0.3


@pytest.mark.shared
def test_a_machine_is_ready_in_the_median_of_the_measured_starts() -> None:
    with shared("data", "instance_startup_aws_2025.csv").open(newline="") as lines:
        seconds = [float(row["time_to_ssh_ready_s"]) for row in csv.DictReader(lines)]
    assert len(seconds) >= 15
    assert median(seconds) == pytest.approx(PROVISION_SECONDS, abs=8)
    assert all(20 <= value <= 60 for value in seconds)


def test_the_articles_three_to_five_minutes_need_fast_networks() -> None:
    assert bandwidth_gb_s(SEVENTY_B, 300) == pytest.approx(0.24, abs=0.005)
    assert bandwidth_gb_s(SEVENTY_B, 180) == pytest.approx(0.40, abs=0.005)


def test_no_spot_notice_is_long_enough_for_a_70b() -> None:
    cold = load_time(LoadQuestion(checkpoint_bytes=SEVENTY_B, gpu_count=2))
    assert not cold.fits_notice(120)
    small = LoadQuestion(
        checkpoint_bytes=4 * GB, storage=Storage.PAGE_CACHE, provision=False, compile_cached=True
    )
    assert load_time(small).fits_notice(120)


questions = st.builds(
    LoadQuestion,
    checkpoint_bytes=st.integers(GB, 1000 * GB),
    gpu_count=st.sampled_from([1, 2, 4, 8]),
    storage=st.sampled_from(list(Storage)),
    provision=st.booleans(),
    image_present=st.booleans(),
    compile_cached=st.booleans(),
    first_start=st.booleans(),
    eager=st.booleans(),
)


@given(question=questions)
def test_the_parts_are_the_whole_and_a_warm_machine_is_never_slower(
    question: LoadQuestion,
) -> None:
    found = load_time(question)
    assert sum(found.parts.values()) == pytest.approx(found.p50_s)
    assert found.p90_s > found.p50_s > 0
    assert reload_time(question, warm_machine=True).p50_s <= load_time(
        dataclasses.replace(question, provision=True)
    ).p50_s + 1e-9  # fmt: skip


@given(question=questions, factor=st.integers(2, 4))
def test_more_bytes_never_load_faster(question: LoadQuestion, factor: int) -> None:
    more = dataclasses.replace(question, checkpoint_bytes=question.checkpoint_bytes * factor)
    assert load_time(more).p50_s >= load_time(question).p50_s


@given(question=questions)
def test_every_suggested_saving_saves_and_the_largest_comes_first(question: LoadQuestion) -> None:
    found = [saving.seconds for saving in savings(question)]
    assert all(seconds > 0 for seconds in found)
    assert found == sorted(found, reverse=True)


def test_every_storage_has_a_bandwidth() -> None:
    assert set(READ_GB_S) == set(Storage)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"checkpoint_bytes": 0}, "checkpoint_bytes 0"),
        ({"checkpoint_bytes": 1, "gpu_count": 0}, "gpu_count 0"),
        ({"checkpoint_bytes": 1, "network_gb_s": 0.0}, "network_gb_s 0.0"),
        ({"checkpoint_bytes": 1, "read_gb_s": float("nan")}, "read_gb_s nan"),
    ],
)
def test_sizes_without_meaning_are_refused(values: dict[str, float], said: str) -> None:
    with pytest.raises(InputError, match=said):
        LoadQuestion(**values)  # type: ignore[arg-type]
