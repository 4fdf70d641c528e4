"""Tables are read by what their headers and headings say."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.money import parse_price
from pricing.tables import Table, read_tables, soup_of
from tests.shared import shared

Row = tuple[str, int, Decimal | None, Decimal | None]

WANTED: list[Row] = [
    ("H100 SXM", 8, Decimal("23.92"), Decimal("12.00")),
    ("A100 80GB", 8, Decimal("12.00"), None),
    ("L40S", 1, Decimal("0.86"), Decimal("0.40")),
]


def tables(html: str | bytes) -> list[Table]:
    soup = soup_of(html.encode() if isinstance(html, str) else html)
    return [] if soup is None else read_tables(soup)


def price_rows(html: bytes) -> list[Row]:
    """Read GPU, count, on-demand and spot price of an instance, as a provider would."""
    rows: list[Row] = []
    for table in tables(html):
        columns = [table.column(p) for p in (r"^GPU$", r"^GPUs$", r"^on-demand.*hr", r"^spot.*hr")]
        name, count, on_demand, spot = columns
        if name is None or count is None or on_demand is None or spot is None:
            continue
        for row in table.rows:
            first, second = (parse_price(row[index], "en-US") for index in (on_demand, spot))
            rows.append(
                (
                    row[name],
                    int(row[count]),
                    first.amount if first else None,
                    second.amount if second else None,
                )
            )
    return rows


def test_the_page_before_its_rebuild_gives_its_three_rows() -> None:
    assert price_rows(shared("cases", "b16_pricing_v1.html").read_bytes()) == WANTED


def test_the_rebuilt_page_gives_the_same_rows_or_none_but_never_the_teaser_price() -> None:
    assert price_rows(shared("cases", "b16_pricing_v2.html").read_bytes()) in ([], WANTED)


def test_labels_name_the_tab_then_the_headings_outwards() -> None:
    (table,) = tables(
        "<h1>Pricing</h1><h2>Clusters</h2><h3>Old</h3><h2>Instances</h2><h4>Small</h4>"
        '<button id="t1">8x GPUs</button><div aria-labelledby="t1"><table><caption>List</caption>'
        "<tr><th>GPU</th></tr></table></div><h2>Later</h2>"
    )
    assert table.labels == ("List", "8x GPUs", "Small", "Instances", "Pricing")


def test_footnote_marks_are_not_part_of_a_number() -> None:
    (table,) = tables(
        "<table><tr><th>GPUs<sup>2</sup></th></tr><tr><td>4<sup>1</sup></td></tr></table>"
    )
    assert (table.headers, table.rows) == (("GPUs",), (("4",),))


def test_a_table_inside_a_cell_is_its_own_table() -> None:
    outer, inner = tables(
        "<table><tr><th>A</th></tr><tr><td><table><tr><th>B</th></tr><tr><td>1</td></tr></table>"
        "</td></tr></table>"
    )
    assert (outer.headers, len(outer.rows)) == (("A",), 1)
    assert (inner.headers, inner.rows) == (("B",), (("1",),))


def test_a_table_without_a_header_row_is_not_read() -> None:
    assert tables("<table><tr><td>H100</td><td>$2.49</td></tr></table>") == []


def test_two_columns_of_one_meaning_are_refused() -> None:
    table = Table((), ("Price/GPU/hr until June", "Price/GPU/hr from June"), ())
    with pytest.raises(ValueError, match="several columns"):
        table.column("price")
    assert table.column("from june") == 1
    assert table.column("vram") is None


@given(st.binary(max_size=300))
def test_any_bytes_are_read_without_an_error(body: bytes) -> None:
    assert isinstance(tables(body), list)
    assert isinstance(tables(b"<table><tr><th>" + body + b"</th></tr></table>"), list)
