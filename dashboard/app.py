"""Entry of the page: configuration, a gate for a database that is not ready, navigation."""

from __future__ import annotations

from pathlib import Path

import streamlit as st

from core.errors import AppError
from dashboard.data import database

# A file of our own: named icons would be fetched from a stranger's server.
ICON = Path(__file__).with_name("icon.svg")
st.set_page_config(page_title="Spotfloor", page_icon=str(ICON), layout="wide")

try:
    database()
except AppError as error:
    st.title("Spotfloor")
    st.error(f"The database is not ready: {error}", icon=":material/database_off:")
    st.stop()

page = st.navigation(
    [
        st.Page("app_pages/planner.py", title="Fleet planner", icon=":material/hub:", default=True),
        st.Page("app_pages/advisor.py", title="GPU Advisor", icon=":material/memory:"),
        st.Page("app_pages/prices.py", title="Price explorer", icon=":material/search_insights:"),
        st.Page("app_pages/egress.py", title="Egress", icon=":material/outbound:"),
        st.Page("app_pages/alerts.py", title="Alerts", icon=":material/notifications:"),
        st.Page("app_pages/digests.py", title="Digests", icon=":material/newspaper:"),
        st.Page("app_pages/sources.py", title="Sources & status", icon=":material/rss_feed:"),
    ],
    position="top",
)
page.run()
