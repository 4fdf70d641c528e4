"""The planner's page in its states, on the bundled prices."""

from __future__ import annotations

import json
from typing import Any

import pytest
from typer.testing import CliRunner

from dashboard.frontier_chart import picked
from dashboard.planning import command_of
from db.engine import Database, reading
from db.plans import list_plans
from service.cli import app as command
from tests.app.pages import opened, said

ONE_ZONE = {"pl_gpu": "l4", "pl_provider": "gcp", "pl_region": "us-east4", "pl_ceiling": "5"}
"""A question with few offers, solved in a blink."""


@pytest.fixture
def may_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dashboard.plan_keep.why_read_only", lambda: "")


def test_the_example_is_solved_and_says_so(filled: Database) -> None:
    app = opened("planner")
    assert "of the demand served" in app.subheader[0].value
    assert "A worked example" in said(app)
    assert [metric.label for metric in app.metric][:3] == [
        "USD per month", "USD per 1M tokens", "Demand served",
    ]  # fmt: skip


def test_the_page_and_the_command_line_give_the_same_plan_to_the_byte(filled: Database) -> None:
    app = opened("planner", **ONE_ZONE, pl_base="50", pl_survive="one zone", pl_budget="9000")
    tabbed(app, "Share, keep, receipt")
    line = app.code[0].value
    assert "--region us-east4" in line
    assert "--min-on-demand-share 0.5" in line
    assert "--budget 9000" in line
    result = CliRunner().invoke(command, [*line.split()[1:], "--json"])
    assert result.exit_code == 0, result.output
    printed = json.loads(result.stdout)
    assert f"receipt {printed['receipt']['hash']}" in said(app)


def test_a_command_quotes_what_a_shell_would_read_otherwise() -> None:
    line = command_of({"model": "a b;rm", "region": ("x", "y"), "community": True, "floor": 1.5})
    assert line == (
        "spotfloor plan solve --model 'a b;rm' --region x --region y --community --floor 1.5"
    )


def test_the_address_of_another_gpu_is_its_plain_name(filled: Database) -> None:
    app = opened("planner", pl_gpu="a100-80gb-sxm", pl_provider="gcp", pl_ceiling="5")
    assert app.selectbox(key="pl_gpu").value == "a100-80gb-sxm"
    assert "a100-80gb-sxm" in app.subheader[0].value.replace("\\", "")


def test_limits_of_the_page_bind_the_fleet(filled: Database) -> None:
    free = opened("planner", **ONE_ZONE)
    bound = opened("planner", **ONE_ZONE, pl_base="100")
    assert dollars(bound) >= dollars(free)
    assert set(bound.dataframe[0].value["option"]) == {"on-demand"}


def test_what_cannot_be_kept_names_what_would_help(filled: Database) -> None:
    app = opened("planner", **ONE_ZONE, pl_budget="10")
    assert "10" in app.error[0].value
    assert "try:" in said(app)


def test_a_floor_above_the_ceiling_is_one_clear_line(filled: Database) -> None:
    app = opened("planner", **ONE_ZONE, pl_floor="30")
    assert "floor 30 is above ceiling 5" in said(app)


def test_a_model_is_sized_and_what_holds_it_is_shown(filled: Database) -> None:
    app = opened("planner", pl_by="a model", pl_provider="gcp", pl_region="us-east4")
    text = said(app)
    assert "Holds one replica:" in text
    assert "requests/s a replica" in text
    assert "of the demand served" in app.subheader[0].value


def test_each_tab_of_the_closer_look_opens(filled: Database) -> None:
    app = opened("planner", **ONE_ZONE)
    assert "Reloads: billed hours" in said(app), "the first tab is open"
    tabbed(app, "Cost against served share")
    assert "Click a dot" in said(app)
    tabbed(app, "Price history")
    assert app.selectbox(key="pl_offer").options
    tabbed(app, "Export")
    assert app.code[0].value.startswith("plan_id,role"), "a table where no scaler knows the rate"
    rated = opened("planner", **ONE_ZONE, pl_rate="1")
    tabbed(rated, "Export")
    assert "replica_policy:" in rated.code[0].value


def test_a_tool_that_cannot_express_the_plan_says_why(filled: Database) -> None:
    app = opened("planner", **ONE_ZONE)
    tabbed(app, "Export")
    app.session_state["pl_format"] = "karpenter"
    app.run()
    assert "expresses aws alone" in said(app)
    assert not app.code


def test_a_click_on_the_chart_names_the_share_of_its_point() -> None:
    assert picked({"selection": {"pick": [{"target": 0.95}]}}) == 0.95
    assert picked({"selection": {"pick": []}}) is None
    assert picked(None) is None


def test_a_plan_is_kept_watched_and_opened_by_its_link(filled: Database, may_write: None) -> None:
    app = opened("planner", **ONE_ZONE)
    tabbed(app, "Share, keep, receipt")
    app.button(key="pl_keep").click().run()
    with reading(filled) as session:
        saved = list_plans(session)[0]
    app.button(key="pl_watch").click().run()
    again = opened("planner", plan=saved.id)
    text = said(again)
    assert "It is shown as it was answered then." in text
    assert "It is watched" in text
    assert again.subheader[0].value.replace("\\", "") == saved.document["summary"]


def test_an_unknown_kept_plan_says_so(filled: Database) -> None:
    app = opened("planner", plan="<script>alert(1)</script>")
    assert "is kept here" in app.error[0].value
    assert "<script>" not in app.error[0].value.replace("\\<", "")


def test_without_permission_nothing_is_kept(filled: Database) -> None:
    app = opened("planner", **ONE_ZONE)
    tabbed(app, "Share, keep, receipt")
    assert app.button(key="pl_keep").disabled


def dollars(app: Any) -> float:
    return float(app.metric[0].value.strip("$").replace(",", ""))


def tabbed(app: Any, name: str) -> None:
    """Open a tab of the closer look, as its click in a browser does."""
    app.session_state["pl_tab"] = name
    app.run()
    assert not app.exception
