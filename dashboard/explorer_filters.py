"""The explorer's filters: widgets bound to the address, with how many offers each would show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

import pandas as pd
import streamlit as st
from streamlit.delta_generator import DeltaGenerator

from core.errors import InputError
from dashboard.explorer import OPTION_NAMES, OPTIONS, UNITS, Asked, narrowed, read_text
from dashboard.explorer_data import facet_frame, known_origins
from dashboard.facet_counts import counted, without
from dashboard.plan_view import plain_text
from db.records import OfferFilter, Origin

COUNTS: dict[str, tuple[int | None, int | None]] = {
    "any": (None, None), "1": (1, 1), "2": (2, 2), "4": (4, 4), "8": (8, 8),
    "1 to 4": (1, 4), "2 or more": (2, None), "4 or more": (4, None), "8 or more": (8, None),
}  # fmt: skip
AGES: dict[str, int | None] = {
    "any": None, "2 h": 2, "24 h": 24, "7 days": 168, "30 days": 720,
}  # fmt: skip
TIERS = ("any", "secure", "community")
ROWS = (50, 100, 250, 500)
TABS = ("Offers", "Index")
MOST_USD, MOST_GIB = 1000.0, 4096
_SHOWN_COUNTS = 5


@dataclass(frozen=True, slots=True)
class Filters:
    """What the widgets say.

    Attributes:
        asked: the question, first page.
        unit: what prices are shown per.
        under: USD per GPU-hour for the share of hours; None = each offer's present price.
        problem: why the text could not be read; "" = it could.
        without: how many offers there would be without one of the filters, by its name.
    """

    asked: Asked
    unit: str
    under: Decimal | None
    problem: str
    without: Mapping[str, int]


def hostile(params: Mapping[str, Sequence[str]], allowed: Mapping[str, Sequence[str]]) -> list[str]:
    """Return one line for each value of the address that no widget can take.

    Args:
        params: the values by key.
        allowed: for each key that has a closed set of values, what they are.
    """
    lines = []
    for key, choices in allowed.items():
        lines += [
            f"{key}={value[:60]}: not a value of this filter, so it is left out"
            for value in params.get(key, ())
            if value and value not in choices
        ]
    for key, most in (("ex_vram", MOST_GIB), ("ex_price", MOST_USD), ("ex_under", MOST_USD)):
        lines += [
            f"{key}={value[:60]}: write a number from 0 to {most:g}, so it is left out"
            for value in params.get(key, ())
            if value and not _number_up_to(value, most)
        ]
    return lines


def _number_up_to(text: str, most: float) -> bool:
    try:
        return 0 <= float(text) <= most
    except ValueError:
        return False


def filters(snapshot: str, default_origin: Origin) -> Filters:
    """Draw the filters and read them."""
    origins = known_origins(snapshot)
    params = {
        key: st.query_params.get_all(key) for key in st.query_params
    }  # before widgets mend it
    note = st.container()
    search = st.container()
    with st.sidebar:
        st.subheader("Filters", anchor=False)
        origin = _origin(origins, default_origin)
        age = _age()
        frame = facet_frame(snapshot, origin, age)
        # What an option shows is what stands in the address, so counts stand below, not in it.
        places: dict[str, DeltaGenerator] = {}
        gpus = _multi("GPU", "ex_gpu", list(counted(frame, "gpu")))
        places["gpu"] = st.empty()
        low, high = COUNTS.get(_select("GPUs per instance", "ex_count", list(COUNTS)), (None, None))
        options = _multi("Purchase option", "ex_option", list(OPTIONS))
        places["option"] = st.empty()
        providers = _multi("Provider", "ex_provider", list(counted(frame, "provider")))
        places["provider"] = st.empty()
        prefixes = st.text_input(
            "Region starts with", key="ex_region", bind="query-params", max_chars=100,
            placeholder="us, eu-west", help="One or more, with commas.",
        )  # fmt: skip
        places["region"] = st.empty()
        tier = _select(
            "Tier", "ex_tier", TIERS,
            help="secure: data centres. community: private hosts of a marketplace.",
        )  # fmt: skip
        places["tier"] = st.empty()
        vram = st.number_input(
            "VRAM per GPU at least, GiB", 0, MOST_GIB, 0, 8, key="ex_vram", bind="query-params",
            help="0 = any.",
        )  # fmt: skip
        price = st.number_input(
            "At most, USD per GPU-hour", 0.0, MOST_USD, 0.0, 0.1, key="ex_price",
            bind="query-params", help="0 = any.",
        )  # fmt: skip
    with note:
        _note_hostile(params, frame, origins)
    with search:
        words, unit, under = _search()
    clicked = OfferFilter(
        gpus=tuple(gpus),
        providers=tuple(providers),
        purchase_options=tuple(OPTIONS[name] for name in options if name in OPTIONS),
        regions=tuple(part.strip() for part in prefixes.split(",") if part.strip()),
        tiers=(tier,) if tier in {"secure", "community"} else (),
        min_gpu_count=None if low is None else Decimal(low),
        max_gpu_count=None if high is None else Decimal(high),
        min_vram_gib=Decimal(vram) if 0 < vram <= MOST_GIB else None,
        max_usd_per_gpu_hour=_dollars(price),
    )
    typed, problem = _typed(words, frame)
    both = narrowed(clicked, typed)
    for column, place in places.items():
        place.caption(_counts_line(counted(frame, column, both or clicked), column))
    return Filters(
        Asked(both, origin, age),
        unit if unit in UNITS else "GPU-hour",
        under,
        problem,
        {} if both is None else without(frame, both),
    )


def _search() -> tuple[str, str, Decimal | None]:
    text, unit_place, under_place = st.columns([2.2, 3.3, 1.4], vertical_alignment="bottom")
    words = text.text_input(
        "Search", key="ex_q", bind="query-params", placeholder="h100:80gb:1.. spot us <2.5",
        max_chars=200, icon=":material/search:",
        help="GPU[:memory][:count], option, provider, region prefix, tier, price per GPU-hour.",
    )  # fmt: skip
    unit = unit_place.segmented_control(
        "Price per", list(UNITS), default="GPU-hour", required=True, key="ex_unit",
        bind="query-params", help="A month is 730 h of the instance; GiB of VRAM are as sold.",
    )  # fmt: skip
    under = under_place.number_input(
        "Share of hours under", 0.0, MOST_USD, 0.0, 0.1, key="ex_under", bind="query-params",
        help="USD per GPU-hour; 0 = each offer's own price of now. The table then says in which"
        " share of the last 30 days it was at most that.",
    )  # fmt: skip
    return words, str(unit), _dollars(under)


def _dollars(value: float) -> Decimal | None:
    shortest = f"{value:.6f}".rstrip("0").rstrip(".")
    return Decimal(shortest) if 0 < value <= MOST_USD else None


def _typed(words: str, frame: pd.DataFrame) -> tuple[OfferFilter, str]:
    providers, regions = frame["provider"].cat.categories, frame["region"].cat.categories
    try:
        return read_text(words, list(providers), list(regions)), ""
    except InputError as error:
        return OfferFilter(), str(error)


def _origin(origins: Sequence[Origin], default: Origin) -> Origin:
    if len(origins) < 2 or default not in origins:
        return default
    chosen = st.selectbox(
        "Prices", origins, index=origins.index(default), key="ex_origin", bind="query-params",
        help="live: collected. snapshot: bundled with the program. import: read from your files.",
    )  # fmt: skip
    return chosen if chosen in origins else default


def _age() -> int | None:
    return AGES.get(
        _select(
            "Confirmed within", "ex_age", list(AGES),
            help="Age of a price: since it was last seen at its source.",
        )
    )  # fmt: skip


def _select(label: str, key: str, options: Sequence[str], help: str | None = None) -> str:
    return str(st.selectbox(label, options, key=key, bind="query-params", help=help))


def _multi(label: str, key: str, options: list[str]) -> list[str]:
    chosen = st.multiselect(
        label, options, key=key, bind="query-params", placeholder="all", wrap=True
    )
    return [name for name in chosen if name in options]


def _counts_line(counts: Mapping[str, int], column: str) -> str:
    """The commonest values of a filter with their numbers, as Markdown."""
    shown = [
        f"{plain_text(_said(name, column))} **{number:,}**"
        for name, number in list(counts.items())[:_SHOWN_COUNTS]
    ]
    more = len(counts) - len(shown)
    return " · ".join([*shown, f"{more} more"] if more > 0 else shown) or "no offers"


def _said(value: str, column: str) -> str:
    if column == "option":
        return OPTION_NAMES.get(value, value)
    return "not stated" if column == "region" and value == "*" else value


def _note_hostile(
    params: Mapping[str, Sequence[str]], frame: pd.DataFrame, origins: Sequence[Origin]
) -> None:
    lines = hostile(
        params,
        {
            "ex_gpu": list(frame["gpu"].cat.categories),
            "ex_provider": list(frame["provider"].cat.categories),
            "ex_option": list(OPTIONS),
            "ex_origin": list(origins),
            "ex_count": list(COUNTS),
            "ex_age": list(AGES),
            "ex_tier": TIERS,
            "ex_unit": list(UNITS),
            "ex_rows": [str(rows) for rows in ROWS],
            "ex_tab": TABS,
        },
    )
    if lines:
        st.warning("  \n".join(plain_text(line) for line in lines[:5]), icon=":material/link_off:")
