"""``plan solve --traffic``: the file reaches the plan, and what was read is shown."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest

from tests.service.inside import check, run

SOLVE = ("plan", "solve", "--gpu", "L4", "--provider", "gcp", "--rps-per-replica", "10")


@pytest.fixture
def traffic(tmp_path: Path) -> Path:
    path = tmp_path / "day.csv.gz"
    text = "\ufeffhour;rps;tokens_in;tokens_out\r\n" + "".join(
        f"{h};{20 if h < 8 else 40};700;150\r\n" for h in range(24)
    )
    path.write_bytes(gzip.compress(text.encode()))
    return path


def test_a_file_says_demand_tokens_and_headroom(snapshot: Path, traffic: Path) -> None:
    words = (*SOLVE, "--traffic", str(traffic), "--growth", "1.5")
    plan = check(run(*words, "--json").document)
    read, inputs = plan["traffic"], plan["inputs"]
    assert inputs["demand_replicas_by_hour"] == [3.0] * 8 + [6.0] * 16
    assert (inputs["tokens_in"], inputs["tokens_out"]) == (700, 150)
    assert read["source"] == "day.csv.gz"
    assert inputs["headroom"] == read["headroom_used"] == read["headroom"]["value"]
    # Poisson at 60 requests/s, 3,600 a minute: about 1.645 / 60.
    assert 0.01 < inputs["headroom"] < 0.04
    shown = run(*words, "--headroom", "0.2").out
    assert "floor 30 (p10), ceiling 60 (p99) requests/s, growth x1.5 included" in shown
    assert "headroom 20.0%: as you gave it; computed" in shown
    assert "verdict  " in shown


def test_floor_and_ceiling_in_rates_get_a_computed_headroom(snapshot: Path) -> None:
    words = (*SOLVE, "--floor-rps", "20", "--ceiling-rps", "20", "--headroom-quantile", "0.975")
    plan = check(run(*words, "--json").document)
    # 1,200 requests a minute: 1.96 / sqrt(1200) = 5.7 %.
    assert plan["inputs"]["headroom"] == pytest.approx(0.0566, rel=0.05)
    assert plan["traffic"]["floor"] == {"quantile": None, "rps": 20.0}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--traffic", "nowhere.csv"), "nowhere.csv: cannot read"),
        (("--timezone", "UTC", "--floor", "1", "--ceiling", "2"), "only goes with --traffic"),
        (("--floor", "1", "--traffic", "x.csv"), "--traffic already says the demand"),
    ],
)
def test_wrong_use_of_traffic_is_one_line(words: tuple[str, ...], said: str) -> None:
    ran = run(*SOLVE, *words)
    assert said in ran.error
    assert ran.code == 2


def test_rates_of_a_file_need_the_rate_of_a_replica(snapshot: Path, traffic: Path) -> None:
    ran = run("plan", "solve", "--gpu", "L4", "--traffic", str(traffic))
    assert "--traffic needs --rps-per-replica" in ran.error
