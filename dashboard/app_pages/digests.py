"""Digests: the market of each week, told; to read, to keep and to follow."""

from __future__ import annotations

import streamlit as st

from core.settings import load_settings
from dashboard.digest_view import show_archive, show_digest, show_feed, stored_digests, told_of
from dashboard.plan_view import plain_text

st.title("What moved this week?")
every = stored_digests()
if not every:
    st.info(
        "No digest is stored yet. The worker builds one a week"
        f" ({plain_text(load_settings().digest_at)}); `spotfloor digest build` builds the last"
        " closed week now.",
        icon=":material/hourglass_empty:",
    )
    show_feed()
    st.stop()

names = list(dict.fromkeys(item.name for item in every))
weeks = list(dict.fromkeys(item.week for item in every))
odd = [
    f"{key}={value[:60]}: not a value of this page, so it is left out"
    for key, values in {"dg_week": weeks, "dg_name": names}.items()
    for value in st.query_params.get_all(key)
    if value and value not in values
]
columns = st.columns([1, 1, 2])
name = names[0]
if len(names) > 1:
    chosen = columns[1].selectbox("Digest", names, key="dg_name", bind="query-params")
    name = chosen if chosen in names else names[0]
mine = [item for item in every if item.name == name]
weeks = [item.week for item in mine]
week = columns[0].selectbox("Week", weeks, key="dg_week", bind="query-params")
if odd:
    st.warning("  \n".join(plain_text(line) for line in odd[:5]), icon=":material/link_off:")

item = next((item for item in mine if item.week == week), mine[0])
told = told_of(item.name, item.week, item.revision, item.state)
if told is None:
    st.warning("This digest is gone; reload the page.", icon=":material/search_off:")
else:
    show_digest(told)
with st.expander(f"Archive: {len(mine)} weeks" if len(mine) > 1 else "Archive: 1 week"):
    show_archive(mine)
with st.expander("Follow it"):
    show_feed()
    st.caption("Or by mail, chat and webhook: set SPOTFLOOR_DIGEST_TO to names of endpoints.")
