"""Alerts: what is watched, what was said, where it goes and whether it arrived."""

from __future__ import annotations

import streamlit as st

from dashboard.data import now
from dashboard.endpoint_view import (
    ANY,
    read_endpoints,
    show_deliveries,
    show_endpoints,
)
from dashboard.plan_view import plain_text
from dashboard.rules_view import read_rules, show_events, show_rules
from db.outbox import STATES

st.title("Who is told what?")
at = now()
endpoints, numbers = read_endpoints()
rules, counts, events = read_rules()
allowed = {
    "al_rule": [rule.name for rule in rules],
    "al_endpoint": [ANY, *(item.name for item in endpoints)],
    "al_state": [ANY, *STATES],
}
odd = [
    f"{key}={value[:60]}: not a value of this page, so it is left out"
    for key, values in allowed.items()
    for value in st.query_params.get_all(key)
    if value and value not in values
]
if odd:
    st.warning("  \n".join(plain_text(line) for line in odd[:5]), icon=":material/link_off:")

show_rules(rules, counts, {item.id: item.name for item in endpoints}, at)
if rules or events:
    show_events(events, rules)
show_endpoints(endpoints, numbers, at)
if endpoints:
    show_deliveries(endpoints)
