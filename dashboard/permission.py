"""Who may change something from the page: a person who signed in, or one at this machine."""

from __future__ import annotations

from urllib.parse import urlsplit

import streamlit as st

_HERE = frozenset({"127.0.0.1", "::1", "localhost"})


def why_read_only() -> str:
    """Return why nothing may be changed from this page, "" where it may.

    Where a sign-in is configured, only who is signed in may. Otherwise the server must listen on
    this machine alone, be called by one of its own names, and not stand behind a proxy, through
    which anybody may come.
    """
    user = st.user.to_dict()
    if "is_logged_in" in user:
        return "" if user["is_logged_in"] else "sign in to change something"
    return why_not_here(
        str(st.get_option("server.address") or ""),
        st.context.headers.get("Host") or "",
        proxied=any(
            st.context.headers.get(name) for name in ("X-Forwarded-For", "Forwarded", "X-Real-Ip")
        ),
    )


def why_not_here(listens_on: str, host: str, *, proxied: bool) -> str:
    """Return why a request is not from this machine, "" if it is.

    Args:
        listens_on: address that the server listens on; "" = all.
        host: the request's ``Host`` header.
        proxied: a proxy passed the request on.
    """
    if listens_on.lower() not in _HERE:
        return "the page listens beyond this machine"
    if proxied:
        return "the page stands behind a proxy"
    try:
        name = urlsplit(f"//{host}").hostname
    except ValueError:
        name = None
    return "" if name in _HERE else "the page was not called by this machine's own name"
