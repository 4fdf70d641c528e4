"""The price explorer in every state: what it shows, says, and gives to other programs."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
import streamlit as st
from fastapi.testclient import TestClient

from core.market import PurchaseOption
from db.engine import Database, reading
from db.migrate import upgrade
from db.offer_shape import offers_csv
from db.offers import current_offers
from db.records import OfferFilter, StoredOffer
from service.api.app import create_app
from service.context import make_context
from tests.app.pages import opened, said
from tests.builders import a_report, an_offer, facts, write
from tests.service.inside import run

NOW = datetime.now(UTC)


@pytest.fixture
def moving(page_database: Database) -> Database:
    """A live market of two days: one spot price that halves; nobody looked for 13 h."""
    upgrade(page_database)
    present = datetime.now(UTC)
    for hours in [*range(48, 24, -1), *range(12, -1, -1)]:
        at = present - timedelta(hours=hours)
        offers = [
            an_offer(instance_type="od", usd_per_hour="8", gpu_count="2", observed_at=at),
            an_offer(
                instance_type="sp", usd_per_hour="4" if hours > 36 else "2", observed_at=at,
                purchase_option=PurchaseOption.SPOT, region="us-east-1",
                source_url="https://acme.example/spot",
            ),
        ]  # fmt: skip
        write(page_database, a_report(offers, at=at, source=facts(every_seconds=3600)))
    return page_database


def test_first_paint_lists_the_cheapest_offers_with_age_and_source(filled: Database) -> None:
    app = opened("prices")
    table = app.dataframe[0].value
    assert len(table) == 100
    assert len(app.code) == 1, "the command alone: of an API the page knows nothing here"
    assert table["price"].is_monotonic_increasing
    assert table["age"].notna().all()
    assert (table["freshness"] == "◇ snapshot").all()
    assert (
        (table[["link", "source"]] if "link" in table else table[["source"]])
        .notna()
        .any(axis=1)
        .all()
    )
    with reading(filled) as session:
        everything = current_offers(session, NOW, OfferFilter())
    assert f"{len(everything):,} offers fit" in said(app)
    assert float(table["price"][0]) == pytest.approx(float(everything[0].usd_per_gpu_hour))
    assert "◇" not in said(app), "pretty names stand in the table"
    assert not any("-sxm" in name for name in table["gpu"])


def test_counts_below_a_filter_are_those_of_the_offers_it_would_show(filled: Database) -> None:
    app = opened("prices", ex_option=["spot"])
    with reading(filled) as session:
        spot = current_offers(session, NOW, OfferFilter(purchase_options=["spot"]))
        both = current_offers(session, NOW, OfferFilter())
    l4 = sum(offer.gpu == "l4" for offer in spot)
    assert f"l4 **{l4:,}**" in said(app)
    on_demand = sum(offer.purchase_option == "on_demand" for offer in both)
    assert f"on-demand **{on_demand:,}**" in said(app), "a filter does not narrow its own counts"


def test_the_text_and_the_filters_both_narrow(filled: Database) -> None:
    app = opened("prices", ex_q="h100:80gb:1..8 spot us", ex_provider=["gcp"])
    table = app.dataframe[0].value
    assert set(table["option"]) == {"spot"}
    assert all(name.startswith("H100") for name in table["gpu"])
    assert all(place.startswith("us") for place in table["place"])
    assert set(table["provider"]) == {"Google Cloud"}


def test_a_text_that_means_nothing_is_one_clear_line(filled: Database) -> None:
    app = opened("prices", ex_q="h1000")
    assert len(app.error) == 1
    assert "did you mean" in app.error[0].value
    assert len(app.dataframe[0].value) == 100, "the filters still hold"


def test_a_text_that_contradicts_a_filter_shows_nothing_and_says_so(filled: Database) -> None:
    app = opened("prices", ex_q="h100", ex_gpu=["l4"])
    assert len(app.dataframe) == 0
    assert "exclude each other" in said(app)


def test_no_fit_names_the_filter_that_is_in_the_way(filled: Database) -> None:
    app = opened("prices", ex_gpu=["l4"], ex_vram="80")
    with reading(filled) as session:
        l4 = len(current_offers(session, NOW, OfferFilter(gpus=["l4"])))
    assert f"without the filter on **VRAM** there would be {l4:,}" in said(app)


@pytest.mark.parametrize(
    ("unit", "price"),
    [("GPU-hour", "4"), ("instance-hour", "8"), ("GiB VRAM-hour", "0.05"), ("month", "5840")],
)
def test_prices_per_unit(moving: Database, unit: str, price: str) -> None:
    app = opened("prices", ex_unit=unit, ex_option=["on-demand"])
    assert app.dataframe[0].value["price"][0] == pytest.approx(float(price))


def rows_everywhere(monkeypatch: pytest.MonkeyPatch, **params: str | list[str]) -> list[str]:
    """Return the lines of the page's CSV: the shown command and request give the same bytes."""
    made: list[str] = []

    def spy(offers: Sequence[StoredOffer]) -> str:
        made.append(offers_csv(offers))
        return made[-1]

    monkeypatch.setattr("dashboard.explorer_view.offers_csv", spy)
    monkeypatch.setenv("SPOTFLOOR_API_URL", "https://prices.example/")
    app = opened("prices", **params)
    command = shlex.split(app.code[0].value)
    assert command[:3] == ["spotfloor", "prices", "list"]
    ran = run(*command[1:])
    assert ran.code == 0, ran.err
    assert ran.out.encode() == made[0].encode()
    host, slash, request = app.code[1].value.partition("/v1/offers?")
    assert host == "https://prices.example"
    with TestClient(create_app(make_context()), base_url="http://127.0.0.1") as api:
        answer = api.get(slash + request)
    assert answer.status_code == 200, answer.text
    assert answer.content == made[0].encode()
    assert len(made[0].splitlines()) == 1 + len(app.dataframe[0].value)
    return made[0].splitlines()


@pytest.mark.parametrize(
    "params",
    [
        {"ex_gpu": ["h100-sxm", "l4"], "ex_option": ["spot", "on-demand"]},
        {"ex_q": "a100:80gb:1.. <3", "ex_tier": "secure"},
        {"ex_region": "us, eu", "ex_count": "2 or more", "ex_rows": "50", "ex_vram": "40"},
        {"ex_option": ["spot"], "ex_rows": "50", "ex_page": "2"},
    ],
)
def test_the_pages_csv_is_to_the_byte_what_the_shown_command_and_request_give(
    filled: Database, monkeypatch: pytest.MonkeyPatch, params: dict[str, str | list[str]]
) -> None:
    assert len(rows_everywhere(monkeypatch, **params)) > 5


def test_a_limit_of_age_is_the_same_everywhere(
    moving: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    late = datetime.now(UTC) - timedelta(hours=7)
    write(moving, a_report([an_offer(provider="old", observed_at=late)], at=late,
                           source=facts("old")))  # fmt: skip
    assert len(rows_everywhere(monkeypatch, ex_age="2 h")) == 1 + 2
    assert len(rows_everywhere(monkeypatch, ex_age="24 h")) == 1 + 3


def test_later_pages_follow_the_first(filled: Database) -> None:
    first = opened("prices", ex_rows="50").dataframe[0].value
    second = opened("prices", ex_rows="50", ex_page="2").dataframe[0].value
    both = opened("prices", ex_rows="100").dataframe[0].value
    assert list(both["price"]) == [*first["price"], *second["price"]]


def grid_hours_ago() -> list[float]:
    """How long ago the noons and midnights (UTC) of the last 48 hours were."""
    at = datetime.now(UTC)
    last = at.replace(hour=at.hour // 12 * 12, minute=0, second=0, microsecond=0)
    every = [(at - last).total_seconds() / 3600 + 12 * number for number in range(5)]
    return [hours for hours in every if hours <= 48]


def test_a_linked_offer_opens_its_history_with_its_gap(moving: Database) -> None:
    with reading(moving) as session:
        (spot,) = current_offers(session, NOW, OfferFilter(purchase_options=["spot"]))
    app = opened("prices", ex_offer=str(spot.id), ex_under="2")
    words = said(app)
    assert "between 2.0000 and 4.0000 USD per GPU-hour, 1 changes" in words
    assert "1 gap: 13 h unknown" in words, "from the look 25 h ago to the one 12 h ago"
    figures = {metric.label: metric.value for metric in app.metric}
    assert figures["Now, USD/GPU-h"] == "$2.0000"
    # 12 h at 4 and 11 h at 2 before the gap, 12 h at 2 after it: 23 of 35 known hours.
    assert figures["Hours at or under $2"] == "66%"
    table = app.dataframe[0].value
    assert table["share"][0] == pytest.approx(23 / 35, abs=0.02)
    known = [hours for hours in grid_hours_ago() if not 12 < hours < 25]
    assert len(table["trend"][0]) == len(known), "no point for what nobody knew"
    assert "https://acme.example/spot" in words


def test_a_snapshot_price_has_no_history_and_says_so(filled: Database) -> None:
    app = opened("prices", ex_offer="1")
    assert "A history needs a second look" in said(app)
    assert "trend" not in app.dataframe[0].value


def test_the_index_of_one_gpu_and_what_it_needs(moving: Database) -> None:
    app = opened("prices", ex_tab="Index")
    words = said(app)
    assert "H100 SXM5 80 GB, spot" in words
    figures = [metric.value for metric in app.metric]
    assert "$2.0000" in figures
    assert "Only 1 provider(s)" in words


def test_an_index_of_one_week_shows_no_chart(filled: Database) -> None:
    app = opened("prices", ex_tab="Index", ex_index_gpu="l4")
    assert "an index needs prices of two weeks" in said(app)
    assert not app.get("vega_lite_chart")


def test_an_empty_database_says_where_prices_come_from(page_database: Database) -> None:
    upgrade(page_database)
    app = opened("prices")
    assert "spotfloor scrape run" in said(app)
    assert not app.dataframe


def test_stale_prices_are_called_stale(page_database: Database) -> None:
    upgrade(page_database)
    old = NOW - timedelta(days=30)
    write(page_database, a_report([an_offer(observed_at=old)], at=old))
    app = opened("prices")
    assert list(app.dataframe[0].value["freshness"]) == ["○ stale"]
    assert "1 of the 1 shown are stale" in said(app)
    younger = opened("prices", ex_age="24 h")
    assert "No offer fits" in said(younger)


HOSTILE = {
    "ex_gpu": "../../etc/passwd", "ex_vram": "NaN", "ex_price": "-1e999", "ex_page": "0",
    "ex_rows": "7", "ex_offer": "<script>", "ex_count": "9", "ex_tab": "DROP TABLE",
    "ex_unit": "bitcoin", "ex_origin": "moon", "ex_tier": "'", "ex_age": "never",
    "ex_under": "x", "ex_period": "∞", "ex_region": "%00\u202e{{7*7}}", "ex_option": "free",
    "ex_provider": "\u0000", "ex_index_gpu": "?", "ex_weeks": "-3",
}  # fmt: skip


def test_hostile_query_parameters_fall_back_to_defaults_with_a_note(filled: Database) -> None:
    app = opened("prices", **{k: v for k, v in HOSTILE.items() if k != "ex_region"})
    assert "ex_gpu=../../etc/passwd: not a value of this filter" in said(app)
    assert len(app.dataframe[0].value) == 100
    for key in ("ex_region", "ex_q"):
        st.cache_data.clear()
        lone = opened("prices", **{key: HOSTILE["ex_region"]})
        assert not lone.exception


@pytest.mark.parametrize("offer", ["0", "999999999", "9" * 15, "9" * 400, "-1", "٣"])
def test_a_link_to_no_offer_is_said_or_ignored(filled: Database, offer: str) -> None:
    app = opened("prices", ex_offer=offer)
    assert len(app.dataframe[0].value) == 100


def test_texts_of_a_provider_are_never_read_as_marks(page_database: Database) -> None:
    upgrade(page_database)
    evil = "<img src=x onerror=alert(1)> **bold** :red[x] $x$"
    write(
        page_database,
        a_report([an_offer(instance_type=evil, note=evil, observed_at=NOW, region="us")], at=NOW),
    )
    app = opened("prices", ex_offer="1")
    marks = [str(part.value) for part in (*app.markdown, *app.caption, *app.subheader)]
    assert any("<img" in text for text in marks), "the heading names the machine"
    assert not [text for text in marks if re.search(r"(?<!\\)<img|(?<!\\)\*\*bold", text)]
    assert app.dataframe[0].value["instance_type"][0] == evil


def test_every_filter_and_chart_has_a_name_for_screen_readers(moving: Database) -> None:
    app = opened("prices", ex_offer="1")
    kinds = ("multiselect", "selectbox", "text_input", "number_input", "segmented_control")
    widgets = [widget for kind in kinds for widget in getattr(app, kind)]
    assert len(widgets) > 10
    assert all(widget.label for widget in widgets)
    charts = app.get("vega_lite_chart")
    assert charts
    assert all(chart.proto.alt for chart in charts)
    assert all(frame.proto.alt for frame in app.dataframe)


def test_under_a_price_is_a_share_of_known_hours_only(moving: Database) -> None:
    app = opened("prices", ex_under="100")
    assert list(app.dataframe[0].value["share"]) == [1.0, 1.0]
    none = opened("prices", ex_under="0.5")
    assert list(none.dataframe[0].value["share"]) == [0.0, 0.0]
