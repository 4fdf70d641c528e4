from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from core.errors import PlanInfeasible
from service.solving import Busy, GivenUp, Overtime, Solver, Task, Work
from tests.conftest import NOW
from tests.service.api import tasks
from tests.service.api.conftest import MakeClient


def work(task: Task, **values: Any) -> Work:
    return Work(task, values, "sqlite://", NOW)


def test_work_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    with pytest.raises(Overtime, match=r"not solved within 0\.5 s"):
        Solver(seconds=0.5, at_once=1).run(work(tasks.never_ends, started=str(tmp_path / "x")))
    assert multiprocessing.active_children() == []


def test_work_ends_when_nobody_waits_and_its_place_is_free_again(tmp_path: Path) -> None:
    solver = Solver(seconds=100, at_once=1)
    started = tmp_path / "started"
    seen: list[bool] = []

    def gone() -> bool:
        if started.exists() and not seen:
            with pytest.raises(Busy):
                solver.run(work(tasks.talks))
            seen.append(True)
        return bool(seen)

    with pytest.raises(GivenUp):
        solver.run(work(tasks.never_ends, started=str(started)), gone)
    assert multiprocessing.active_children() == []
    assert solver.run(work(tasks.talks)) == {"now": "2026-12-01T06:00:00Z"}


def test_errors_come_back_as_they_were() -> None:
    solver = Solver(seconds=100, at_once=1)
    with pytest.raises(PlanInfeasible) as caught:
        solver.run(work(tasks.is_infeasible))
    assert (caught.value.limits, caught.value.relaxations) == (("a",), ("b",))
    with pytest.raises(RuntimeError, match=r"^the solving process failed$"):
        solver.run(work(tasks.fails))


def test_the_api_says_that_it_took_too_long(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    given = {"started": str(tmp_path / "started")}
    monkeypatch.setattr("service.api.solved.plan_document", tasks.never_ends)
    monkeypatch.setattr("service.api.questions.PlanSpec.values", lambda _: given)
    client = make_client()
    client.app.state.house.solver = Solver(seconds=0.5, at_once=1)  # type: ignore[attr-defined]
    answer = client.post("/v1/plans?save=false", json={"example": True})
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:spotfloor:problem:too-long"


def test_only_so_many_are_solved_at_once(make_client: MakeClient) -> None:
    client = make_client()
    full = Solver(seconds=1, at_once=1)
    full._places.acquire()
    client.app.state.house.solver = full  # type: ignore[attr-defined]
    answer = client.post("/v1/plans?save=false", json={"example": True})
    assert answer.status_code == 503
    assert answer.json()["type"] == "urn:spotfloor:problem:busy"
    assert answer.headers["retry-after"] == "5"
