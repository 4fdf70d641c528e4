"""A plan in other tools' languages: a preview and a download, or why a tool cannot express it."""

from __future__ import annotations

from typing import Any

import streamlit as st

from core.errors import InputError
from dashboard.plan_view import plain_text
from optimizer.export import Choice, choices

_LANGUAGES = {"skyserve": "yaml", "dstack": "yaml", "karpenter": "yaml", "terraform": "hcl",
              "json": "json"}  # fmt: skip
PREVIEW_HEIGHT = 420


def show_exports(plan: dict[str, Any]) -> None:
    """Draw the choice of formats and what the chosen one makes of the plan."""
    try:
        found = {choice.format.name: choice for choice in choices(plan)}
    except InputError as error:
        st.error(plain_text(str(error)), icon=":material/block:")
        return
    able = [name for name, choice in found.items() if choice.export is not None]
    chosen = st.segmented_control(
        "Format", list(found), default=able[0],  # JSON expresses every plan
        required=True, key="pl_format",
        format_func=lambda name: _label(found[name]),
    )  # fmt: skip
    _show(found[str(chosen)])


def _label(choice: Choice) -> str:
    """A format's title, marked where it cannot express the plan."""
    title = choice.format.title
    return title if choice.export is not None else f":material/block: {title}"


def _show(choice: Choice) -> None:
    if choice.export is None:
        st.info(plain_text(choice.refused), icon=":material/block:")
        return
    export = choice.export
    for note in export.notes:
        st.markdown(f"- :material/warning: {plain_text(note)}")
    st.download_button(
        f"Download {export.filename}",
        export.text.encode(),
        file_name=export.filename,
        mime=export.format.media_type,
        icon=":material/download:",
        on_click="ignore",
        key="pl_export",
    )
    st.code(
        export.text,
        language=_LANGUAGES.get(export.format.name),
        line_numbers=True,
        height=PREVIEW_HEIGHT,
    )
