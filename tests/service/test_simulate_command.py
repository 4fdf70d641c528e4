"""``plan simulate``: promise beside replay, and sweeps over processes and a cluster."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.policies import with_section
from core.errors import InputError
from service.sweep import run_map
from tests.service.inside import check, run
from tests.service.test_replay_command import INDEX, RUNS
from tests.shared import ROOT


def row(usd: str, counts: list[int], **changes: Any) -> dict[str, Any]:
    """A row of a plan's fleet: one replica per instance, on demand."""
    return {
        "provider": "aws", "region": "r1", "zone": "", "purchase_option": "on_demand",
        "replicas_per_instance": 1, "instances_by_hour": counts, "instances_max": max(counts),
        "usd_per_instance_hour": usd, "hazard_per_hour": 0.0, "drought_hours": 0.0, **changes,
    }  # fmt: skip


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    """Three replicas needed: one on demand at 1 USD, two on spot at 0.25; stand-ins."""
    document = {
        "schema": "spotfloor.plan/1",
        "plan_id": "abc",
        "inputs": {"reload_minutes": 5.0},
        "demand_by_hour": [3.0] * 24,
        "fleet": [
            row("1", [1] * 24, instances_max=3),
            row("0.25", [1] * 24, purchase_option="spot", zone="r1a", hazard_per_hour=0.5,
                drought_hours=1.0),
            row("0.5", [1] * 24, purchase_option="spot", zone="x", replicas_per_instance=2,
                hazard_per_hour=0.1, drought_hours=1.0),
        ],
        "service": {"target": 0.99, "served_share": 0.99, "worst_hour_served_share": 0.98,
                    "preemptions_per_day": 9.0},
        "cost": {"compute_usd_per_month": "1000", "preemption_usd_per_month": "95"},
        "baselines": [],
    }  # fmt: skip
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(document))
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "spot_traces_index.csv").write_text(INDEX)
    (tmp_path / "spot_traces_rle.csv").write_text(RUNS)
    return tmp_path


def test_promise_and_replay_on_given_traces(plan: Path, folder: Path) -> None:
    document = check(
        run("plan", "simulate", str(plan), "--traces", str(folder), "--stand-in-chance", "1",
            "--json").document
    )  # fmt: skip
    # r1a by its name; x takes the other, which is gone from the 25th of 50 hours on.
    assert [pair["trace"] for pair in document["traces"]["zones"]] == ["r1a", "r2a"]
    # 50 h: 1 + 0.25 all along; 0.50 for 2 replicas for 25 h; then, as 4 for a need of 3 run, one
    # stand-in at 1 USD; and three for 5 minutes at the start, until spot serves.
    usd = (1.25 * 50 + 0.5 * 25 + 1.0 * 25 + 3 / 12) / 50 * 730
    assert float(document["replay"]["compute_usd_per_month"]) == pytest.approx(usd, abs=0.01)
    # Lost: 3 replicas in the first tick and one when the zone goes, of 3 x 600.
    assert document["replay"]["served_share"] == pytest.approx(1 - 4 / 1800, abs=1e-6)
    assert document["replay"]["preemptions_per_day"] == pytest.approx(2 / 50 * 24)
    names = [policy["name"] for policy in document["policies"]]
    assert names[:2] == ["the plan", "all on-demand"]
    assert "SpotHedge e=4" in names
    assert any("preemptions a day" in words for words in document["warnings"])
    assert any("USD a month" in words for words in document["warnings"])


def test_made_traces_over_seeds_and_the_table(plan: Path) -> None:
    words = ("plan", "simulate", str(plan), "--seeds", "2", "--workers", "1", "--days", "8")
    first, again = (check(run(*words, "--json").document) for _ in range(2))
    assert first == again
    assert first["traces"]["kind"] == "synthetic"
    # A plan that promises what it assumes: hazards come back within the noise of 16 days.
    assert first["replay"]["preemptions_per_day"] == pytest.approx(
        24 * (0.5 / 1.5 + 2 * 0.1 / 1.1), rel=0.5
    )
    ran = run(*words)
    assert "served share" in ran.out
    assert "2 of 2 replays" in ran.err


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[]", "is no plan"),
        ("{", "cannot be read as a plan"),
        ('{"schema": "spotfloor.advise/1"}', "schema 'spotfloor.advise/1'"),
        ('{"schema": "spotfloor.plan/1", "fleet": 3}', "solve it again"),
    ],
)
def test_what_is_no_plan_is_refused(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "p.json"
    path.write_text(text)
    assert message in run("plan", "simulate", str(path)).error


def test_a_kept_plan_is_found_by_its_id(snapshot: Path) -> None:
    assert "no kept plan" in run("plan", "simulate", "abcdef").error


# --- the map of sweeps -------------------------------------------------------------------------


def slow_square(number: int) -> int:
    time.sleep(0.05)
    return number * number


def test_sweeps_over_processes_keep_order_and_tell_progress() -> None:
    told: list[tuple[int, int]] = []
    found = run_map(slow_square, range(4), workers=2, progress=lambda *at: told.append(at))
    assert found == [0, 1, 4, 9]
    assert told == [(1, 4), (2, 4), (3, 4), (4, 4)]
    with pytest.raises(InputError, match="workers 0"):
        run_map(slow_square, [1], workers=0)


def test_a_killed_worker_of_a_cluster_loses_nothing() -> None:
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None
    ) as cluster:
        killed: list[int] = []

        def kill_one(done: int, _of: int) -> None:
            if done == 5:
                process = next(iter(cluster.workers.values())).process
                killed.append(process.pid)
                os.kill(process.pid, signal.SIGKILL)

        found = run_map(slow_square, range(60), dask=cluster.scheduler_address, progress=kill_one)
    assert len(killed) == 1
    assert found == [number * number for number in range(60)]


def test_a_scheduler_that_is_not_there_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr("service.sweep.CONNECT_SECONDS", 0.3)
    with pytest.raises(InputError, match=r"--dask tcp://127\.0\.0\.1:9: no scheduler answers"):
        run_map(slow_square, [1], dask="tcp://127.0.0.1:9")


# --- the documentation -------------------------------------------------------------------------


def test_the_commands_of_the_replay_page_work(
    plan: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (ROOT / "docs" / "replay.md").read_text("utf-8")
    lines = re.findall(r"^spotfloor (.*)$", text, re.MULTILINE)
    assert [line.split()[:2] for line in lines] == [
        ["plan", "solve"], ["plan", "simulate"], ["benchmark", "policies"],
    ]  # fmt: skip
    requests = folder / "requests.csv"
    requests.write_text("timestamp_ms\n0\n60000\n120000\n")
    monkeypatch.chdir(plan.parent)
    for line in lines[1:]:  # the first is one of the planner's own tests
        words = line.replace("FOLDER", str(folder)).replace("FILE", str(requests)).split()
        short = ["--days", "2"] if words[0] == "plan" else []
        assert run(*words, *short).code == 0
    assert (plan.parent / "policies.svg").exists()


def test_a_section_of_the_results_is_replaced_and_others_stay() -> None:
    page = "# Results\n\n## Alerts\n\nkept\n\n## Replay\n\nold\n\n### part\n\nold\n"
    assert with_section(page, "## Replay\n\nnew\n") == (
        "# Results\n\n## Alerts\n\nkept\n\n## Replay\n\nnew\n"
    )
    assert with_section("", "## Replay\n\nnew\n") == "# Results\n\n## Replay\n\nnew\n"
