"""The page as a person uses it: a real Chromium, the real ``spotfloor up``."""

from __future__ import annotations

import io
import json
import re
import time
from collections.abc import Iterator
from urllib.parse import urlsplit

import jsonschema
import numpy as np
import pytest
import yaml
from PIL import Image
from playwright.sync_api import Browser, Locator, Page, expect

from tests.e2e.browser import chromium
from tests.running import up
from tests.shared import ROOT

pytestmark = pytest.mark.browser

ARTIFACTS = ROOT / "test-artifacts"
PATIENCE_MS = 90_000
PLAN_SCHEMA = ROOT / "docs" / "schemas" / "plan.schema.json"
DOT = np.array([0x1F, 0x6F, 0xEB])
"""Colour of the frontier's dots in the light theme."""


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("e2e")
    with up(f"sqlite:///{folder / 'e2e.db'}", "--no-worker") as (url, _):
        yield url


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    opened = context.new_page()
    opened.set_default_timeout(PATIENCE_MS)
    yield opened
    context.close()


def sentence(page: Page) -> str:
    """The one-sentence answer, once it is there."""
    found = page.get_by_role("heading", name=re.compile("of the demand served"))
    expect(found).to_be_visible(timeout=PATIENCE_MS)
    return found.inner_text()


def test_first_visit_shows_a_solved_fleet_and_asks_no_other_server(
    page: Page, address: str
) -> None:
    hosts: set[str | None] = set()
    errors: list[str] = []
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(address)
    assert "Run " in sentence(page)
    expect(page.get_by_text("Snapshot of 2026-11-09")).to_be_visible()
    expect(page.get_by_text("The fleet", exact=False).first).to_be_visible()
    assert {host for host in hosts if host} <= {"127.0.0.1"}
    assert errors == []
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "planner.png", full_page=True)


def test_a_changed_input_is_in_the_address_and_opens_the_same_plan_elsewhere(
    page: Page, browser: Browser, address: str
) -> None:
    page.goto(address)
    before = sentence(page)
    ceiling = page.get_by_role("spinbutton", name="Ceiling, replicas")
    ceiling.fill("20")
    ceiling.press("Tab")
    page.wait_for_url(re.compile("pl_ceiling=20"))
    expect(page.get_by_role("heading", name=before)).to_have_count(0, timeout=PATIENCE_MS)
    changed = sentence(page)
    other = browser.new_context().new_page()
    other.set_default_timeout(PATIENCE_MS)
    other.goto(page.url)
    assert sentence(other) == changed
    other.context.close()


def test_a_click_on_the_frontier_plans_for_that_share(page: Page, address: str) -> None:
    page.goto(f"{address}/?pl_region=us-east4&pl_ceiling=5")
    before = sentence(page)
    page.get_by_role("tab", name="Cost against served share").click()
    expect(page.get_by_text("Click a dot to plan for its share")).to_be_visible()
    chart = page.get_by_test_id("stVegaLiteChart").last
    chart.scroll_into_view_if_needed()
    x, y = lowest_dot(chart)
    chart.click(position={"x": x, "y": y})
    page.wait_for_url(re.compile("pl_target=90"))
    expect(page.get_by_role("heading", name=before)).to_have_count(0, timeout=PATIENCE_MS)
    assert "of the demand served" in sentence(page)


def lowest_dot(chart: Locator) -> tuple[float, float]:
    """Where the dot of the lowest served share is: the lowest blob of the dots' blue."""
    time.sleep(1.5)  # the chart grows into its width
    shot = Image.open(io.BytesIO(chart.screenshot())).convert("RGB")
    rows, columns = np.nonzero(np.abs(np.asarray(shot, int) - DOT).sum(axis=2) < 30)
    low = rows >= rows.max() - 8
    return float(columns[low].mean()), float(rows[low].mean())


def test_a_kept_plan_opens_by_its_link_in_another_browser(
    page: Page, browser: Browser, address: str
) -> None:
    page.goto(f"{address}/?pl_region=us-east4&pl_ceiling=4.5&pl_rate=1")
    answer = sentence(page)
    page.get_by_role("tab", name="Share, keep, receipt").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Download (JSON)").click()
    document = json.loads(download.value.path().read_text())
    jsonschema.validate(document, json.loads(PLAN_SCHEMA.read_text()))
    page.get_by_role("tab", name="Export").click()
    with page.expect_download() as download:
        page.get_by_role("button", name=re.compile("Download .*sky.yaml")).click()
    exported = yaml.safe_load(download.value.path().read_text())
    assert exported["service"]["replica_policy"]["min_replicas"] >= 1
    page.get_by_role("tab", name="Share, keep, receipt").click()
    page.get_by_role("button", name="Keep this plan").click()
    expect(page.get_by_role("button", name="Kept")).to_be_disabled()
    other = browser.new_context().new_page()
    other.set_default_timeout(PATIENCE_MS)
    other.goto(f"{address}/?plan={document['plan_id']}")
    assert sentence(other) == answer
    expect(other.get_by_text("It is shown as it was answered then")).to_be_visible()
    other.context.close()


def test_sources_page_opens_by_its_own_address_and_back_works(page: Page, address: str) -> None:
    page.goto(address)
    sentence(page)
    page.get_by_role("link", name=re.compile("Sources")).click()
    expect(page.get_by_role("heading", name=re.compile("Sources"))).to_be_visible()
    page.go_back()
    sentence(page)


def test_dark_theme_and_a_narrow_screen_hold_the_answer(browser: Browser, address: str) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(address)
    sentence(page)
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= 390, "nothing hangs over the side"
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "planner-dark-narrow.png", full_page=True)
    context.close()


def test_from_the_advisors_card_to_a_planned_fleet(page: Page, address: str) -> None:
    page.goto(f"{address}/advisor")
    answer = page.get_by_role("heading", name=re.compile("^Serve meta"))
    expect(answer).to_be_visible(timeout=PATIENCE_MS)
    for kind in ("Cheapest", "Balanced", "Safest"):
        expect(page.get_by_text(kind, exact=True)).to_be_visible()
    expect(page.get_by_text("vllm serve meta-llama", exact=False).first).to_be_visible()
    ARTIFACTS.mkdir(exist_ok=True)
    page.screenshot(path=ARTIFACTS / "advisor.png", full_page=True)

    users = page.get_by_role("spinbutton", name="Requests at once")
    users.fill("32")
    users.press("Tab")
    page.get_by_role("button", name="Advise", exact=True).click()
    page.wait_for_url(re.compile("ad_users=32"))
    link = page.get_by_role("link", name="Plan a fleet with it").last
    with page.context.expect_page() as opened:
        link.click()
    planner = opened.value
    planner.set_default_timeout(PATIENCE_MS)
    planner.wait_for_url(re.compile("pl_gpu="))
    sentence(planner)
