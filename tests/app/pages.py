"""Opening one page in Streamlit's own test runner, and reading what it says."""

from __future__ import annotations

from streamlit.testing.v1 import AppTest

from tests.shared import ROOT

APP = str(ROOT / "dashboard" / "app.py")
SAYING = ("title", "header", "subheader", "markdown", "caption", "info", "success", "warning",
          "error")  # fmt: skip


def opened(page: str, **params: str | list[str]) -> AppTest:
    """Open ``app_pages/PAGE.py`` with query parameters; it must not end in an exception."""
    app = AppTest.from_file(APP, default_timeout=120)
    for key, value in params.items():
        app.query_params[key] = value
    app.switch_page(f"app_pages/{page}.py").run()
    assert not app.exception
    return app


def said(app: AppTest) -> str:
    """All that the page says to people, without the marks that keep texts plain."""
    parts = [str(part.value) for kind in SAYING for part in getattr(app, kind)]
    return "\n".join(parts).replace("\\", "")
