"""Egress: what a month's traffic costs at each provider, with the ladders behind the bills."""

from __future__ import annotations

from decimal import Decimal

import streamlit as st

from dashboard.banner import price_banner
from dashboard.data import market_state
from dashboard.egress_rows import DESTINATIONS, INTERNET, areas, chosen
from dashboard.egress_view import egress_command, show_egress, tariffs_of
from dashboard.plan_view import plain_text

MOST_GB = 100_000_000.0

st.title("What does the traffic cost?")
state = market_state()
price_banner(state)
stored = tariffs_of(state.snapshot)
if not stored:
    st.info(
        "No traffic tariff is stored yet. `spotfloor up` loads the bundled ones.",
        icon=":material/hourglass_empty:",
    )
    st.stop()

providers = sorted({item.tariff.provider for item in stored})
world = areas(stored)
allowed = {"eg_to": DESTINATIONS, "eg_area": world, "eg_provider": providers}
odd = [
    f"{key}={value[:60]}: not a value of this page, so it is left out"
    for key, values in allowed.items()
    for value in st.query_params.get_all(key)
    if value and value not in values
]
columns = st.columns([1.3, 1.3, 1.3, 2, 1.5], vertical_alignment="bottom")
gb = columns[0].number_input(
    "GB a month", 0.0, MOST_GB, 10_000.0, 1000.0, format="%.0f", key="eg_gb",
    bind="query-params", help="GB of 10^9 bytes; 1 TB = 1000 GB.",
)  # fmt: skip
kind = columns[1].selectbox("To", DESTINATIONS, key="eg_to", bind="query-params")
area = columns[2].selectbox(
    "Readers live in", world or ["anywhere"], key="eg_area", bind="query-params",
    help="Some networks (Google Cloud's premium tier) price parts of the world apart.",
    disabled=kind != INTERNET,
)  # fmt: skip
names = columns[3].multiselect(
    "Providers", providers, key="eg_provider", bind="query-params", placeholder="all providers"
)
prefixes = columns[4].text_input(
    "Region starts with", key="eg_region", bind="query-params", placeholder="us, eu-west",
    max_chars=100,
)  # fmt: skip
if odd:
    st.warning("  \n".join(plain_text(line) for line in odd[:5]), icon=":material/link_off:")

volume = Decimal(str(round(min(max(gb, 0.0), MOST_GB), 3))).normalize()
regions = [part.strip() for part in prefixes.split(",") if part.strip()]
found = chosen(stored, kind, area, [name for name in names if name in providers], regions)
if not found:
    st.info(
        "No tariff fits: fewer filters, or another destination.", icon=":material/filter_alt_off:"
    )
    st.stop()
show_egress(state.snapshot, found, volume)
with st.expander("The same from a shell"):
    st.code(egress_command(names, volume), language="bash")
    st.caption("It lists every region's tariff on its own, with its bill.")
