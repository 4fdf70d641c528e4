"""``benchmark policies``: its document, its table, and wrong use in one line."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tests.service.inside import check, run

INDEX = (
    "trace_id,kind,region,zone,accelerator,accel_per_node,gap_seconds,"
    "aligned_start_tick,aligned_n_ticks,source\n"
    "a,availability,r1,r1a,V100,1,300,0,600,o/r:availability/set/a.json\n"
    "b,availability,r2,r2a,V100,1,300,0,600,o/r:availability/set/b.json\n"
)
RUNS = "trace_id,start_tick,n_ticks,value\na,0,600,1\nb,0,300,1\nb,300,300,0\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spot_traces_index.csv").write_text(INDEX)
    (tmp_path / "spot_traces_rle.csv").write_text(RUNS)
    return tmp_path


def test_every_policy_is_in_the_document_and_above_the_bound(folder: Path) -> None:
    requests = folder / "requests.csv"
    requests.write_text("workload,t_start_s,window_s,req_per_s\na,0,600,2\na,600,600,6\n")
    document = check(
        run("benchmark", "policies", "--traces", str(folder), "--requests", str(requests),
            "--replicas", "3", "--json").document
    )  # fmt: skip
    assert document["traces"]["name"] == "availability/set/V100x1"
    assert document["load"]["mean_replicas"] == pytest.approx(3)
    assert "repeated 150.0 times" in document["load"]["source"]
    rows = {row["policy"]: row for row in document["policies"]}
    assert {"all on-demand", "all spot", "SpotHedge e=2", "fixed counts per zone"} <= set(rows)
    for row in rows.values():
        assert float(row["bound_usd"]) <= float(row["cost_usd"])
        assert row["served_low"] <= row["served_share"] <= row["served_high"]
    # One zone is always up, and all spot starts there: no preemption at 30 % of the price.
    assert rows["all spot"]["preemptions"] == 0
    assert float(rows["all spot"]["cost_usd"]) == pytest.approx(
        0.3 * rows["all spot"]["spot_hours"], abs=0.01
    )


def test_the_table_is_for_people(folder: Path) -> None:
    ran = run("benchmark", "policies", "--traces", str(folder))
    assert ran.code == 0, ran.err
    assert "SpotHedge e=4" in ran.out
    assert "read as a preemption" in ran.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--traces", "{}", "--set", "nothing"), "--set 'nothing': 0 sets fit"),
        (("--traces", "{}/none"), "has no spot_traces_index.csv"),
        (("--traces", "{}", "--requests", "{}/none.csv"), "cannot be read"),
        (("--traces", "{}", "--replicas", "-1"), "load -0.5: must be from 0"),
        (("--traces", "{}", "--cold-seconds", "-1"), "cold_s -1.0: must be 0 or more"),
    ],
)
def test_wrong_use_is_one_line(folder: Path, words: tuple[str, ...], message: str) -> None:
    filled = [word.format(folder) for word in words]
    assert message in run("benchmark", "policies", *filled).error


def test_the_chart_is_an_svg_with_every_policy(folder: Path) -> None:
    path = folder / "chart.svg"
    ran = run("benchmark", "policies", "--traces", str(folder), "--chart", str(path))
    assert ran.code == 0, ran.err
    drawn = ET.fromstring(path.read_text("utf-8"))
    words = " ".join(text.text or "" for text in drawn.iter("{http://www.w3.org/2000/svg}text"))
    assert "SpotHedge e=2" in words
    assert "ours, value" in words
    message = "is an SVG; give a name that ends in .svg"
    assert message in run("benchmark", "policies", "--chart", str(folder / "c.html")).error
