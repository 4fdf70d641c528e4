"""The egress page in every state, and the arithmetic of its rows and points."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.egress import bill, volume_in
from core.tables import csv_text
from dashboard.egress_rows import INTERNET, chosen, drawn_first, grouped, ladder_words, points
from db.egress import StoredTariff, in_force, tariffs, write_tariffs
from db.engine import Database, reading, writing
from db.migrate import upgrade
from db.runs import recent_runs
from tests.app.pages import opened, said
from tests.builders import T0, a_report, a_tariff, an_offer, write


def stored(*found: Any) -> list[StoredTariff]:
    return [StoredTariff(tariff, "live", T0, None, T0) for tariff in found]


def test_first_paint_compares_bills_with_sources_and_dates(filled: Database) -> None:
    app = opened("egress")
    table = app.dataframe[0].value
    with reading(filled) as session:
        every = in_force(tariffs(session))
    aws = next(
        item.tariff for item in every
        if (item.tariff.provider, item.tariff.region, item.tariff.destination)
        == ("aws", "us-east-1", "internet")
    )  # fmt: skip
    due = bill(aws, Decimal(10_000)).usd
    assert due is not None
    of_aws = table[table["provider"] == "Amazon Web Services"]
    assert float(due) in [pytest.approx(usd) for usd in of_aws["usd"]]
    known = table["usd"].dropna()
    assert known.is_monotonic_increasing
    assert table["usd"].isna().sum() > 0, "some providers state no price"
    assert table["usd"].iloc[len(known) :].isna().all(), "unknown stands last, never as zero"
    assert table["confirmed"].notna().all()
    assert "Unknown is not free" in said(app)
    charts = app.get("vega_lite_chart")
    assert len(charts) == 3
    assert all(chart.proto.alt for chart in charts)


def test_volume_destination_and_filters_come_from_the_address(filled: Database) -> None:
    app = opened("egress", eg_gb="50000", eg_provider=["aws"], eg_region="us-east-1")
    table = app.dataframe[0].value
    # 100 GB free, then 10,240 GB at 0.09, the next 40,960 at 0.085.
    assert table["usd"].iloc[0] == pytest.approx(10_240 * 0.09 + (49_900 - 10_240) * 0.085)
    assert "--gb 50000 --provider aws" in app.code[0].value


def test_the_part_of_the_world_matters_where_a_provider_says_so(filled: Database) -> None:
    bills = {
        area: opened("egress", eg_provider=["gcp"], eg_area=area, eg_region="europe")
        .dataframe[0].value
        for area in ("americas", "china")
    }  # fmt: skip
    assert any("premium to americas" in name for name in bills["americas"]["network"])
    assert any("premium to china" in name for name in bills["china"]["network"])


def test_traffic_that_nobody_prices_is_unknown_not_free(filled: Database) -> None:
    app = opened("egress", eg_provider=["cudo"])
    assert "unknown is not free" in said(app)
    assert app.dataframe[0].value.get("usd") is None or app.dataframe[0].value["usd"].isna().all()
    assert not app.get("vega_lite_chart")


def test_the_csv_is_the_table(filled: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    def spy(columns: Sequence[str], rows: Sequence[Mapping[str, object]]) -> str:
        made.append(csv_text(columns, rows))
        return made[-1]

    monkeypatch.setattr("dashboard.egress_view.csv_text", spy)
    table = opened("egress", eg_gb="1234").dataframe[0].value
    rows = list(csv.DictReader(io.StringIO(made[0])))
    assert len(rows) == len(table)
    assert [row["usd"] for row in rows] == [
        "" if usd != usd else f"{Decimal(str(usd)).normalize():f}" for usd in table["usd"]
    ]  # fmt: skip


def test_hostile_query_parameters_fall_back_with_a_note(filled: Database) -> None:
    app = opened(
        "egress", eg_gb="1e999", eg_to="<b>", eg_area="atlantis", eg_provider="'; --",
        eg_region="%", eg_draw="nothing",
    )  # fmt: skip
    words = said(app)
    assert "eg_to=<b>: not a value of this page" in words
    assert "No tariff fits" in words or app.dataframe
    assert opened("egress", eg_gb="-5").dataframe
    assert opened("egress", eg_gb="0").dataframe


def test_an_empty_database_says_so(page_database: Database) -> None:
    upgrade(page_database)
    app = opened("egress")
    assert "No traffic tariff is stored yet" in said(app)


def test_a_live_tariff_replaces_the_snapshots(filled: Database) -> None:
    at = datetime.now(UTC)
    write(filled, a_report([an_offer(observed_at=at)], at=at))
    with writing(filled) as session:
        run = recent_runs(session, "acme")[0].id
        tariff = a_tariff(("0", "0.01"), provider="vultr", region="*", observed_at=at)
        write_tariffs(session, run, "live", [tariff])
    table = opened("egress", eg_provider=["vultr"]).dataframe[0].value
    assert list(table["from"]) == ["live"]
    assert table["usd"].iloc[0] == pytest.approx(100)


def test_regions_with_one_ladder_are_one_row_and_unknown_comes_last() -> None:
    groups = grouped(
        stored(
            a_tariff(region="eu-1"), a_tariff(region="us-1"),
            a_tariff(("0", "0.05"), region="ap-1"), a_tariff(("0", None), region="cn-1"),
        ),
        Decimal(100),
    )  # fmt: skip
    assert [(group.regions, group.bill.usd) for group in groups] == [
        (("ap-1",), Decimal("5.00")),
        (("eu-1", "us-1"), Decimal("9.00")),
        (("cn-1",), None),
    ]
    assert [group.regions for group in drawn_first(groups)] == [("ap-1",)]


def test_a_ladder_in_words() -> None:
    tariff = a_tariff(("0", "0.09"), ("10240", "0.085"), ("51200", None), free="100")
    assert ladder_words(tariff) == (
        "first 100 free, then 0.09 to 10,240, then 0.085 to 51,200, then unknown USD/GB"
    )


def test_only_tariffs_for_the_destination_are_compared() -> None:
    every = stored(
        a_tariff(), a_tariff(destination="ingress"),
        a_tariff(network_tier="inter_az", destination="inter_az"),
        a_tariff(network_tier="premium", destination="europe"),
        a_tariff(network_tier="premium", destination="china", region="x"),
    )  # fmt: skip
    found = chosen(every, INTERNET, "europe")
    assert [item.tariff.destination for item in found] == ["internet", "europe"]
    assert chosen(every, INTERNET, "europe", ["nobody"]) == []
    assert [i.tariff.region for i in chosen(every, INTERNET, "china", regions=["X"])] == ["x"]


prices = st.decimals("0", "0.2", places=3)


@given(
    st.lists(st.tuples(st.integers(1, 50_000), prices), min_size=1, max_size=4),
    st.sampled_from(["GB", "GiB"]),
    st.integers(0, 500),
    st.integers(1, 200_000),
)
def test_the_drawn_corners_add_up_to_the_bill(
    steps: list[tuple[int, Decimal]], unit: str, free: int, volume: int
) -> None:
    start, rungs = 0, []
    for width, price in steps:
        rungs.append((str(start), str(price)))
        start += width
    tariff = a_tariff(*rungs, unit=unit, free=str(free))
    (group,) = grouped(stored(tariff), Decimal(volume))
    corners = points(group, Decimal(volume))
    assert corners[0]["gb"] == 0
    assert corners[-1]["gb"] == volume
    area = sum(
        (after["gb"] - before["gb"]) * before["usd_per_gb"] for before, after in pairwise(corners)
    )
    due = bill(tariff, volume_in(tariff, Decimal(volume))).usd
    assert due is not None
    assert area == pytest.approx(float(due), rel=1e-6, abs=1e-5)
    assert corners[-1]["usd"] == pytest.approx(float(due))
