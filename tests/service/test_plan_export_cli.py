"""``spotfloor plan export``: from a file or a kept plan, to standard output or a file."""

from __future__ import annotations

import csv
import io
import json
import shlex
from pathlib import Path

import pytest
import yaml

from optimizer.export import FORMATS
from tests.running import environment, spotfloor
from tests.service.inside import check, run
from tests.shared import ROOT

PLAN = ("plan", "solve", "--gpu", "L4", "--provider", "aws", "--floor", "2", "--ceiling", "4",
        "--rps-per-replica", "1.5", "--region", "us-east-1")  # fmt: skip


@pytest.fixture
def plan(snapshot: Path, tmp_path: Path) -> tuple[Path, str]:
    """A real plan: its file, and its id after it was kept."""
    ran = run(*PLAN, "--save", "--json")
    file = tmp_path / "plan.json"
    file.write_text(ran.out, "utf-8")
    return file, ran.document["plan_id"]


def test_a_real_plan_in_every_format(plan: tuple[Path, str], tmp_path: Path) -> None:
    file, plan_id = plan
    for item in FORMATS:
        ran = run("plan", "export", str(file), "--format", item.name)
        assert ran.code == 0, ran.err
        assert run("plan", "export", plan_id[:6], "-f", item.name).out == ran.out
        out = tmp_path / f"out.{item.ending}"
        whole = run("plan", "export", str(file), "-f", item.name, "--output", str(out))
        assert (whole.code, whole.out) == (0, "")
        assert f"wrote {out}" in whole.err
        assert out.read_text("utf-8") == ran.out
    assert check(json.loads((tmp_path / "out.plan.json").read_text("utf-8")))
    (service,) = yaml.safe_load_all((tmp_path / "out.sky.yaml").read_text("utf-8"))
    assert service["service"]["replica_policy"]["min_replicas"] >= 2
    rows = list(csv.DictReader(io.StringIO((tmp_path / "out.csv").read_text("utf-8"))))
    assert {row["provider"] for row in rows} == {"aws"}
    assert sorted(p.name for p in tmp_path.iterdir() if p.name.startswith(".")) == []


def test_without_a_format_the_choices_are_listed(plan: tuple[Path, str]) -> None:
    ran = run("plan", "export", str(plan[0]))
    assert ran.code == 0
    for item in FORMATS:
        assert item.title in ran.out
    shown = run("plan", "export", "--help").out
    assert all(item.name in shown for item in FORMATS)


def test_the_commands_of_the_page_work(
    snapshot: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "exports.md").read_text("utf-8")
    lines = [line for line in page.splitlines() if line.startswith("spotfloor ")]
    assert len(lines) == 4
    for line in lines:
        command, _, file = line.partition("#")[0].partition(" > ")
        ran = run(*shlex.split(command)[1:])
        assert ran.code == 0, ran.err
        if file:
            Path(file.strip()).write_text(ran.out, "utf-8")
    assert Path("fleet.tf").read_text("utf-8").startswith("# Spotfloor plan ")


def test_wrong_use_is_one_line(plan: tuple[Path, str], tmp_path: Path) -> None:
    file, _ = plan
    broken = tmp_path / "broken.json"
    broken.write_text("{", "utf-8")
    listed = tmp_path / "list.json"
    listed.write_text("[]", "utf-8")
    deep = tmp_path / "deep.json"
    deep.write_text("[" * 100_000, "utf-8")
    for words, said in [
        ((str(file), "-f", "helm"), "format 'helm': write one of skyserve"),
        (("nowhere.json", "-f", "csv"), "nowhere.json: no such file"),
        (("abcdef", "-f", "csv"), "no file and no kept plan"),
        (("x" * 5000, "-f", "csv"), "no kept plan"),
        ((str(broken), "-f", "csv"), "broken.json: no JSON"),
        ((str(deep), "-f", "csv"), "deep.json: no JSON"),
        ((str(listed), "-f", "csv"), "list.json: no plan"),
        ((str(file), "-o", str(tmp_path / "x")), "--output needs --format"),
        ((str(file), "-f", "csv", "-o", str(tmp_path / "no" / "x.csv")), "cannot write"),
        ((str(file), "-f", "csv", "-o", str(tmp_path)), "cannot write"),
    ]:
        ran = run("plan", "export", *words)
        assert said in ran.error
        assert ran.code == 2


def test_notes_go_to_standard_error_alone(plan: tuple[Path, str], snapshot: Path) -> None:
    ended = spotfloor("plan", "export", str(plan[0]), "-f", "karpenter",
                      variables=environment(f"sqlite:///{snapshot}"))  # fmt: skip
    assert ended.returncode == 0
    assert all(pool["kind"] == "NodePool" for pool in yaml.safe_load_all(ended.stdout))
    assert "note: nodes follow the pods" in ended.stderr
