from __future__ import annotations

import json
from pathlib import Path

import pytest
from fastapi.testclient import TestClient

from core.tables import jsonable
from dashboard.planning import answer, key_of
from db.engine import Database
from service.context import Context
from tests.service.inside import check, run

SPEC = {"gpu": "L40S", "provider": ["verda"], "floor": 2, "ceiling": 4}
WORDS = ("plan", "solve", "--gpu", "L40S", "-p", "verda", "--floor", "2", "--ceiling", "4")


def test_a_plan_is_solved_as_by_the_command_line_saved_and_found(
    client: TestClient, writer: dict[str, str]
) -> None:
    answer = client.post("/v1/plans", json=SPEC, headers=writer)
    assert answer.status_code == 201, answer.text
    plan = check(answer.json())
    assert plan == run(*WORDS, "--json").document
    again = client.get(answer.headers["location"])
    assert again.json() == plan
    assert client.get(f"/v1/plans/{plan['plan_id'][:5]}").json() == plan
    known = {"If-None-Match": again.headers["etag"]}
    assert client.get(answer.headers["location"], headers=known).status_code == 304
    (row,) = check(client.get("/v1/plans").json())["plans"]
    assert row["plan_id"] == plan["plan_id"]
    assert row["usd_per_month"] == plan["cost"]["usd_per_month"]
    assert client.get("/v1/plans/nothing").status_code == 404


def test_page_command_line_and_api_give_one_plan_to_the_byte(
    client: TestClient, context: Context, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dashboard.planning.database", lambda: context.database)
    monkeypatch.setattr("dashboard.planning.now", context.clock.now)
    values = {
        "name": "as asked", "gpu": "l40s", "provider": ("verda",), "floor": 2.0, "ceiling": 4.0,
        "availability": 0.97, "reload_minutes": 6.0,
    }  # fmt: skip
    page = answer("one plan to the byte", key_of(values)).plan
    assert page is not None
    words = ("--name", "as asked", "--availability", "0.97", "--reload-minutes", "6")
    printed = run(*WORDS, *words, "--json").out
    assert printed == json.dumps(jsonable(page), indent=1, ensure_ascii=False) + "\n"
    spec = {"name": "as asked", "availability": 0.97, "reload_minutes": 6}
    told = client.post("/v1/plans?save=false", json=SPEC | spec)
    compact = json.dumps(jsonable(page), separators=(",", ":"), ensure_ascii=False)
    assert told.content == compact.encode()


def test_a_profile_is_a_list_and_never_a_file(client: TestClient, tmp_path: Path) -> None:
    hours = [2.0] * 12 + [4.0] * 12
    file = tmp_path / "hours.txt"
    file.write_text("\n".join(str(hour) for hour in hours))
    spec = {"gpu": "L4", "provider": ["aws"], "profile": hours}
    answer = client.post("/v1/plans?save=false", json=spec)
    assert answer.status_code == 200, answer.text
    words = ("plan", "solve", "--gpu", "L4", "-p", "aws", "--profile", str(file), "--json")
    assert answer.json() == run(*words).document
    assert client.get("/v1/plans").json()["plans"] == []
    refused = client.post("/v1/plans?save=false", json={**spec, "profile": str(file)})
    assert refused.status_code == 422
    assert "profile" in refused.json()["detail"]
    both = client.post("/v1/plans?save=false", json={**spec, "floor": 1})
    assert "already says the demand" in both.json()["detail"]


def test_a_plan_for_a_model_equals_the_command_lines(client: TestClient) -> None:
    spec = {"model": "Llama-3.1-8B-Instruct", "provider": ["aws"], "floor_rps": 8, "ceiling_rps": 9}
    answer = client.post("/v1/plans?save=false", json=spec)
    words = ("plan", "solve", "-m", "Llama-3.1-8B-Instruct", "-p", "aws", "--floor-rps", "8",
             "--ceiling-rps", "9", "--json")  # fmt: skip
    assert answer.json() == run(*words).document


def test_an_infeasible_plan_names_limits_and_what_relaxing_gives(client: TestClient) -> None:
    spec = {**SPEC, "floor": 20, "ceiling": 40, "max_gpus": 10}
    answer = client.post("/v1/plans?save=false", json=spec)
    assert answer.status_code == 422
    problem = answer.json()
    assert problem["type"] == "urn:spotfloor:problem:infeasible"
    assert "40 replicas need 40 GPUs" in problem["limits"][0]
    assert "makes it feasible" in problem["relaxations"][0]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"flor": 1}, "body.flor"),
        ({"floor": 9}, "floor 9 is above ceiling 4"),
        ({"floor": "2"}, "body.floor"),
        ({"gpu": "H1000"}, "gpu H1000: no such GPU; did you mean"),
        ({"provider": ["awss"]}, "provider awss: no such provider; did you mean aws?"),
        ({"quota": {"verda": -1}}, "body.quota.verda"),
        ({"context": 9}, "context only goes with model"),
        ({"availability": 1}, "no fleet can promise 1"),
        ({"example": True}, "example goes with no other input"),
        ({"origin": "dream"}, "origin dream: write live or snapshot"),
    ],
)
def test_wrong_input_is_a_problem_that_names_value_and_mend(
    client: TestClient, database: Database, change: dict[str, object], said: str
) -> None:
    answer = client.post("/v1/plans?save=false", json=SPEC | change)
    assert answer.status_code == 422
    assert answer.headers["content-type"] == "application/problem+json"
    assert said in answer.json()["detail"]


def test_advice_takes_a_models_own_configuration(client: TestClient, tmp_path: Path) -> None:
    config = {
        "model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 4096,
        "intermediate_size": 14336, "num_hidden_layers": 32, "num_attention_heads": 32,
        "num_key_value_heads": 8, "vocab_size": 128256, "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16", "tie_word_embeddings": False,
    }  # fmt: skip
    file = tmp_path / "config.json"
    file.write_text(json.dumps(config))
    answer = client.post("/v1/advise", json={"config": config, "gpu": "L40S"})
    assert answer.status_code == 200, answer.text
    assert answer.json() == run("advise", "--config", str(file), "--gpu", "L40S", "--json").document
    neither = client.post("/v1/advise", json={})
    assert neither.status_code == 422
    assert "say which model" in neither.json()["detail"]
