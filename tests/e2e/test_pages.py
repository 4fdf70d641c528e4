"""The pages on prices, traffic, alerts, digests and sources in a real Chromium, on a phone too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, expect

from core.clock import FixedClock
from db.engine import make_engine
from db.migrate import upgrade
from notify.digest.keep import keep_digest
from tests.e2e.browser import chromium
from tests.notify.digest.markets import WEEK, listed
from tests.notify.outboxes import an_endpoint, told
from tests.running import up

pytestmark = pytest.mark.browser

PATIENCE_MS = 90_000
PAGES = {
    "prices": re.compile("From .* per GPU-hour"),
    "egress": re.compile("GB a month cost from"),
    "alerts": re.compile("Where messages go"),
    "digests": re.compile("on demand fell 10 %"),
    "sources": re.compile("3 sources"),
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    url = f"sqlite:///{tmp_path_factory.mktemp('pages') / 'pages.db'}"
    engine = make_engine(url)
    upgrade(engine)
    for name, usd in (("a", "2.00"), ("b", "3.00"), ("c", "4.00")):
        listed(engine, name, range(-7, 0), {"m": usd})
        listed(engine, name, range(8), {"m": str(float(usd) * 0.9)})
    keep_digest(engine, WEEK, FixedClock(WEEK.end).now())
    an_endpoint(engine, "ops")
    told(engine, "ep_ops")
    engine.dispose()
    with up(url, "--no-worker") as (found, _):
        yield found


@pytest.fixture(scope="module")
def browser(address: str) -> Iterator[Browser]:
    with chromium() as started:
        yield started


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_each_page_fits_a_phone_and_asks_no_other_server(
    browser: Browser, address: str, scheme: str
) -> None:
    context = browser.new_context(
        viewport={"width": 390, "height": 844},
        color_scheme="dark" if scheme == "dark" else "light",
    )
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    hosts: set[str | None] = set()
    errors: list[str] = []
    page.on("request", lambda request: hosts.add(urlsplit(request.url).hostname))
    page.on("pageerror", lambda error: errors.append(str(error)))
    for name, words in PAGES.items():
        page.goto(f"{address}/{name}")
        expect(page.get_by_role("heading", name=words).first).to_be_visible(timeout=PATIENCE_MS)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390, name
        assert page.locator("[data-testid=stException]").count() == 0, name
    assert {host for host in hosts if host} <= {"127.0.0.1"}
    assert errors == []
    context.close()


def test_a_row_of_the_table_opens_its_history_and_the_link_opens_it_elsewhere(
    browser: Browser, address: str
) -> None:
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{address}/prices?ex_period=30+days")
    table = page.get_by_test_id("stDataFrame").first
    expect(table).to_be_visible(timeout=PATIENCE_MS)
    expect(page.get_by_text("Select a row to see how its price moved")).to_be_visible()
    table.click(position={"x": 20, "y": 55})  # the box before the first row, below the headings
    heading = page.get_by_role("heading", name=re.compile("on-demand · A · m$"))
    expect(heading).to_be_visible(timeout=PATIENCE_MS)
    page.wait_for_url(re.compile("ex_offer="))
    other = browser.new_context().new_page()
    other.goto(page.url)
    found = other.get_by_role("heading", name=re.compile("on-demand · A · m$"))
    expect(found).to_be_visible(timeout=PATIENCE_MS)
    other.context.close()
    context.close()


def test_the_digest_downloads_as_the_page_that_mails_carry(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    page.goto(f"{address}/digests")
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML").click()
    assert download.value.suggested_filename == "spotfloor-digest-market-2026-W48.html"
    text = download.value.path().read_text()
    assert "GPU prices, week 2026-W48" in text
    assert "<script" not in text
    context.close()
