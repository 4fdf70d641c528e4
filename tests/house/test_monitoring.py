"""The Grafana dashboard and the Prometheus rules ask for figures that the API gives, by name."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from fastapi import FastAPI
from fastapi.testclient import TestClient
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from core.clock import FixedClock
from core.settings import Settings
from db.engine import Database
from db.outbox import enqueue
from service.api.app import create_app
from service.context import Context
from service.tokens import make_token
from tests.builders import look
from tests.conftest import NOW
from tests.house.checkout import ROOT
from tests.notify.outboxes import a_message, an_endpoint

DASHBOARD = ROOT / "deploy" / "grafana" / "spotfloor.json"
RULES = ROOT / "deploy" / "prometheus" / "alerts.yaml"
PROMETHEUS = ROOT / "deploy" / "prometheus" / "prometheus.yaml"


def dashboard() -> dict[str, Any]:
    loaded = json.loads(DASHBOARD.read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    found = group["rules"]
    assert isinstance(found, list)
    return found


def questions() -> Iterator[tuple[str, str]]:
    """Yield (where it stands, the question) of both files."""
    for panel in dashboard()["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]
    for rule in rules():
        yield rule["alert"], rule["expr"]


QUESTIONS = sorted(questions())


@pytest.fixture
def context(sqlite: Database) -> Context:
    """A database in which every figure has a value, and the hosts that compose.yaml names."""
    look(sqlite, NOW, {"a": "2.00"})
    enqueue(sqlite, a_message(), [an_endpoint(sqlite)], NOW)
    context = Context(FixedClock(NOW))
    context.settings = Settings.model_validate(
        {"database_url": str(sqlite.url), "api_hosts": ("api",)}
    )
    context.database = sqlite
    return context


@pytest.fixture
def app(context: Context) -> FastAPI:
    return create_app(context)


@pytest.fixture
def samples(app: FastAPI) -> dict[str, set[str]]:
    """{name of a sample: its labels}, as Prometheus reads them."""
    client = TestClient(app, base_url="http://localhost")
    client.get("/v1/gpus")
    families: list[Metric] = list(text_string_to_metric_families(client.get("/metrics").text))
    found: dict[str, set[str]] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def selectors(question: str) -> list[tuple[str, set[str]]]:
    """Each name of ours in a question, with the labels it is selected by."""
    return [
        (name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", braces or "")))
        for name, braces in re.findall(r"\b(spotfloor_\w+)(\{[^}]*\})?", question)
    ]


def grouped(question: str) -> set[str]:
    words = re.findall(r"\bby \(([^)]*)\)", question)
    return {label.strip() for group in words for label in group.split(",") if label.strip()}


def test_every_figure_and_label_that_is_asked_for_is_given(samples: dict[str, set[str]]) -> None:
    assert len(samples) > 8
    for where, question in QUESTIONS:
        asked = selectors(question)
        assert asked or "up{" in question, where
        labels: set[str] = set()
        for name, selected in asked:
            assert name in samples, f"{where}: nothing is called {name}"
            assert selected <= samples[name], f"{where}: {name} has no label {selected}"
            labels |= samples[name]
        assert grouped(question) <= labels, where


def test_every_figure_of_the_database_is_on_the_dashboard(samples: dict[str, set[str]]) -> None:
    shown = {
        name
        for panel in dashboard()["panels"]
        for target in panel["targets"]
        for name, _ in selectors(target["expr"])
    }
    ours = {name for name in samples if name.startswith("spotfloor_")}
    http = {name for name in ours if name.startswith("spotfloor_http_")}
    assert ours - http <= shown
    assert shown & http


def test_routes_and_states_that_are_named_exist(app: FastAPI, samples: dict[str, set[str]]) -> None:
    paths = set(app.openapi()["paths"])
    text = "\n".join(question for _, question in QUESTIONS)
    routes = set(re.findall(r'route!?="([^"]+)"', text))
    assert {"/v1/offers", "/readyz"} == routes
    assert routes <= paths
    assert set(re.findall(r'state="([^"]+)"', text)) <= {"waiting", "late", "delivered", "dead"}
    assert set(re.findall(r'origin="([^"]+)"', text)) == {"live"}


@pytest.mark.parametrize("question", [q for _, q in QUESTIONS])
def test_brackets_are_closed(question: str) -> None:
    for left, right in ("()", "[]", "{}"):
        assert question.count(left) == question.count(right)
    assert question.count('"') % 2 == 0


def test_a_rule_says_what_is_wrong_how_bad_it_is_and_what_mends_it() -> None:
    names = [rule["alert"] for rule in rules()]
    assert len(set(names)) == len(names)
    for rule in rules():
        assert rule["labels"]["severity"] in {"critical", "warning"}
        assert rule["annotations"].keys() == {"summary", "mend"}
        assert set(re.findall(r"\$labels\.(\w+)", str(rule["annotations"]))) <= {"provider"}


def test_panels_do_not_overlap_and_take_their_source_from_the_variable() -> None:
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        assert at["x"] + at["w"] <= 24
        covered = {
            (x, y)
            for x in range(at["x"], at["x"] + at["w"])
            for y in range(at["y"], at["y"] + at["h"])
        }
        assert not cells & covered, panel["title"]
        cells |= covered
        assert panel["description"]
        assert {t["datasource"]["uid"] for t in panel["targets"]} == {"${datasource}"}
    (variable,) = dashboard()["templating"]["list"]
    assert (variable["name"], variable["type"]) == ("datasource", "datasource")


def test_prometheus_gets_the_figures_by_the_name_and_the_token_it_is_told_to_use(
    context: Context,
) -> None:
    config = yaml.safe_load(PROMETHEUS.read_text("utf-8"))
    assert config["rule_files"] == [RULES.name]
    compose, cluster = config["scrape_configs"]
    assert compose["job_name"] == "spotfloor"
    assert {"target_label": "job", "replacement": "spotfloor"} in cluster["relabel_configs"]
    (target,) = compose["static_configs"][0]["targets"]
    services = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))["services"]
    name, _, port = target.partition(":")
    assert services[name]["environment"]["SPOTFLOOR_API_HOSTS"] == "${SPOTFLOOR_API_HOSTS:-api}"
    assert services[name]["ports"][0].endswith(f":{port}")

    client = TestClient(create_app(context, open_reads=False), base_url=f"http://{target}")
    _, token = make_token(context.database, NOW, name="prometheus")
    for job in (compose, cluster):
        kind = job["authorization"]["type"]
        answer = client.get(job["metrics_path"], headers={"Authorization": f"{kind} {token}"})
        assert answer.status_code == 200
    assert client.get(compose["metrics_path"]).status_code == 401
