"""The GPU Advisor page through Streamlit's own test runner."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from db.engine import Database
from db.migrate import upgrade
from tests.app.test_pages import APP, text_of

ADVISOR = "app_pages/advisor.py"


def opened(**values: object) -> AppTest:
    app = AppTest.from_file(APP, default_timeout=120)
    for name, value in values.items():
        app.query_params[name] = str(value)
    app.run()
    return app.switch_page(ADVISOR).run()


def test_first_paint_shows_an_answered_example(filled: Database) -> None:
    app = opened()
    assert not app.exception
    text = text_of(app)
    assert "Serve meta" in text
    for title in ("Cheapest", "Balanced", "Safest"):
        assert title in text
    assert any("vllm serve" in block.value for block in app.code)
    assert "What would change this answer" in text


def test_another_question_gives_another_answer(filled: Database) -> None:
    app = opened()
    before = app.subheader[0].value
    app.selectbox(key="ad_weights").select("4 bits (awq)")
    app.number_input(key="ad_rps").set_value(20.0)
    app.button[0].click().run()
    assert not app.exception
    assert app.subheader[0].value != before
    assert "USD a month" in app.subheader[0].value


def test_a_question_that_contradicts_itself_is_one_clear_line(filled: Database) -> None:
    app = opened()
    app.number_input(key="ad_in").set_value(9000)
    app.button[0].click().run()
    assert not app.exception
    assert "together more than the context" in app.error[0].value


def test_without_prices_it_still_says_what_fits(page_database: Database) -> None:
    upgrade(page_database)
    app = opened()
    assert not app.exception
    assert "no current offer prices it" in app.subheader[0].value
    assert any("vllm serve" in block.value for block in app.code)
