"""Every page and state through Streamlit's own test runner, on a real database file."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import streamlit as st
from streamlit.testing.v1 import AppTest

from core.clock import FixedClock
from core.market import Parsed, PurchaseOption
from db.engine import Database
from db.migrate import upgrade
from pricing.collect import collect, given
from pricing.source import Payload
from tests.builders import a_provider, an_offer
from tests.shared import ROOT

APP = str(ROOT / "dashboard" / "app.py")
SOURCES = "app_pages/sources.py"


def run() -> AppTest:
    return AppTest.from_file(APP, default_timeout=120).run()


def text_of(app: AppTest) -> str:
    parts = [
        *app.title,
        *app.header,
        *app.subheader,
        *app.markdown,
        *app.caption,
        *app.info,
        *app.error,
        *app.warning,
    ]
    return "\n".join(str(part.value) for part in parts)


def test_first_paint_shows_a_solved_example_on_dated_prices(filled: Database) -> None:
    app = run()
    assert not app.exception
    assert "Snapshot of 2026-11-09" in app.info[0].value
    assert "Not live" in app.info[0].value
    sentence = app.subheader[0].value
    assert "Run " in sentence
    assert "of the demand served" in sentence
    labels = [metric.label for metric in app.metric]
    assert labels[0] == "USD per month"
    assert app.metric[0].value.startswith("$")
    fleet = app.dataframe[0].value
    assert set(fleet["option"]) == {"on-demand", "spot"}, "a hybrid fleet"
    assert fleet["price of"].notna().all()
    assert fleet["source"].str.len().min() > 5


def test_an_unmigrated_database_says_what_to_run(page_database: Database) -> None:
    app = run()
    assert not app.exception
    assert "spotfloor db upgrade" in app.error[0].value


def test_an_empty_database_says_where_prices_come_from(page_database: Database) -> None:
    upgrade(page_database)
    app = run()
    assert not app.exception
    assert "spotfloor scrape run" in text_of(app)


def test_live_prices_replace_the_snapshot_and_stale_ones_are_not_planned_with(
    filled: Database,
) -> None:
    old = datetime.now(UTC) - timedelta(days=30)
    offers = [
        an_offer(
            provider="gcp",
            gpu="l4",
            gpu_count=Decimal(1),
            vram_gib=Decimal(24),
            instance_type=f"t{number}",
            purchase_option=option,
            usd_per_hour=Decimal("0.70"),
            observed_at=old,
        )
        for number, option in enumerate((PurchaseOption.ON_DEMAND, PurchaseOption.SPOT))
    ]
    provider = a_provider(name="gcp", parse=lambda _: Parsed(offers=list(offers)))
    payload = Payload("x", b"x", "test", old)
    collect(filled, provider, lambda _: given([payload]), FixedClock(old))
    app = run()
    assert not app.exception
    assert "Live prices" in text_of(app)
    assert "are stale" in text_of(app)


def test_hostile_query_parameters_fall_back_to_defaults(filled: Database) -> None:
    app = AppTest.from_file(APP, default_timeout=120)
    app.query_params["pl_gpu"] = "NOPE"
    app.query_params["pl_floor"] = "<script>"
    app.query_params["ex_gpu"] = "../../etc/passwd"
    app.run()
    assert not app.exception
    assert "of the demand served" in app.subheader[0].value


def test_sources_page_before_and_after_a_collection(filled: Database) -> None:
    app = run()
    app.switch_page(SOURCES).run()
    assert not app.exception
    assert "No source has been collected yet" in text_of(app)
    at = datetime.now(UTC)
    provider = a_provider(name="gcp", parse=lambda _: Parsed())
    collect(filled, provider, lambda _: given([Payload("x", b"x", "test", at)]), FixedClock(at))
    st.cache_data.clear()
    app.run()
    assert not app.exception
    assert list(app.dataframe[0].value["state"]) == ["✕ failed"]
