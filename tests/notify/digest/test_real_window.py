"""The digest of real weeks, against the same figures computed in another way.

The other way: every offer's price is looked up at every fifth minute of the week (as a table of
samples, by pandas), and medians are those of the samples. No code of ours but the mapping of names
is used.
"""

from __future__ import annotations

import csv
import gzip
import os
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd
import pytest

from core.clock import parse_instant
from db.engine import Database, make_engine, reading
from db.migrate import upgrade
from notify.digest.build import build_digest
from notify.digest.layout import layout_of
from notify.digest.model import Digest
from notify.digest.render_html import html_of
from notify.digest.render_markdown import markdown_of
from notify.digest.week import Week
from tests.pricing.real_history import DAILY, Row, load, offer_of
from tests.shared import shared

pytestmark = [pytest.mark.shared, pytest.mark.timeout(120)]

WEEK = "2026-W32"
SERIES = ["gpu", "market", "tier"]


@pytest.fixture(scope="module")
def rows() -> list[Row]:
    """The daily history up to some days after the week; what comes later changes nothing."""
    path = shared("data", "price_history.csv.gz")
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        return [
            Row(
                parse_instant(line["observed_at"]),
                DAILY,
                line["provider"],
                line["region"],
                line["instance_type"],
                line["gpu"],
                line["gpu_count"],
                line["purchase_option"],
                line["usd_per_hour"],
            )
            for line in csv.DictReader(file)
            if line["source"].startswith(f"{DAILY}/") and line["observed_at"] < "2026-08-14"
        ]


@pytest.fixture(scope="module")
def loaded(rows: list[Row], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Database]:
    engine = make_engine(f"sqlite:///{tmp_path_factory.mktemp('digest') / 'history.db'}")
    upgrade(engine)
    load(engine, rows)
    yield engine
    engine.dispose()


@pytest.fixture(scope="module")
def digest(loaded: Database) -> Digest:
    week = Week.of(WEEK)
    with reading(loaded) as session:
        return build_digest(session, week, week.end + timedelta(hours=6))


@pytest.fixture(scope="module")
def sightings(rows: list[Row]) -> pd.DataFrame:
    """One row a price and day, with the time of its provider's look and of the next one."""
    records = []
    for number, row in enumerate(rows):
        offer = offer_of(row)
        records.append(
            {
                "offer": "/".join(row.series),
                "provider": offer.provider,
                "gpu": offer.gpu,
                "market": offer.purchase_option.value,
                "tier": offer.tier.value,
                "usd": float(row.usd) / float(row.gpu_count),
                "at": pd.Timestamp(row.observed_at),
                "row": number,
            }
        )
    frame = pd.DataFrame(records)
    frame["day"] = frame["at"].dt.floor("D")
    frame["look"] = frame.groupby(["provider", "day"])["at"].transform("max")
    looks = frame[["provider", "look"]].drop_duplicates().sort_values("look")
    looks["next"] = looks.groupby("provider")["look"].shift(-1)
    frame = frame.merge(looks, on=["provider", "look"]).sort_values("look")
    frame["seen_again"] = frame.groupby("offer")["look"].shift(-1)
    return frame


def values(sightings: pd.DataFrame, start: datetime, stop: datetime) -> pd.DataFrame:
    """Each offer's median over the five-minute samples of a stretch of time."""
    samples = pd.DataFrame({"t": pd.date_range(start, stop, freq="5min", inclusive="left")})
    known = sightings[
        # A price is known until the next look, if that look saw the offer, within three days.
        (sightings["seen_again"] == sightings["next"])
        & (sightings["next"] - sightings["look"] <= pd.Timedelta(days=3))
        & (sightings["next"] > pd.Timestamp(start))
        & (sightings["look"] < pd.Timestamp(stop))
    ]
    crossed = known.merge(samples, how="cross")
    crossed = crossed[(crossed["t"] >= crossed["look"]) & (crossed["t"] < crossed["next"])]
    found = (
        crossed.groupby(["offer", "provider", *SERIES])["usd"]
        .quantile(0.5, interpolation="lower")
        .reset_index()
    )
    sizes = found.groupby(SERIES)["usd"].transform("size")
    middle = found.groupby(SERIES)["usd"].transform("median")
    far = (sizes >= 5) & ((found["usd"] >= 4 * middle) | (found["usd"] <= middle / 4))
    return found[~far]


def changes(before: pd.DataFrame, after: pd.DataFrame) -> pd.DataFrame:
    both = before.merge(after, on=["offer", "provider", *SERIES], suffixes=("_before", "_after"))
    found = both.groupby(SERIES)[["usd_before", "usd_after"]].median()
    found["share"] = found["usd_after"] / found["usd_before"] - 1
    found["n"] = both.groupby(SERIES).size()
    return found


@pytest.fixture(scope="module")
def week_values(sightings: pd.DataFrame) -> pd.DataFrame:
    return values(sightings, *_window(0))


@pytest.fixture(scope="module")
def week_before(sightings: pd.DataFrame) -> pd.DataFrame:
    return values(sightings, *_window(7))


def _window(days_back: int) -> tuple[datetime, datetime]:
    start = datetime(2026, 8, 3, tzinfo=UTC) - timedelta(days=days_back)
    return start, start + timedelta(days=7)


def test_every_median_quartile_and_count_is_that_of_the_samples(
    digest: Digest, week_values: pd.DataFrame
) -> None:
    groups = week_values.groupby(SERIES)
    oracle = pd.concat(
        [groups["usd"].quantile(q).rename(str(q)) for q in (0.25, 0.5, 0.75)], axis=1
    )
    expected: dict[object, list[float]] = dict(
        zip(oracle.index, oracle.to_numpy().tolist(), strict=True)
    )
    assert len(digest.rows) == len(oracle) > 50
    for row in digest.rows:
        key = (row.gpu, row.market, row.tier)
        told = [float(row.p25), float(row.median), float(row.p75)]
        assert told == pytest.approx(expected[key], abs=2e-6), key
        assert row.offers == len(groups.get_group(key)), key
        assert row.providers == groups.get_group(key)["provider"].nunique(), key


@pytest.mark.parametrize(("days", "figure"), [(7, "7d"), (30, "30d")])
def test_every_change_is_that_of_the_offers_that_both_times_have(
    digest: Digest,
    sightings: pd.DataFrame,
    week_before: pd.DataFrame,
    week_values: pd.DataFrame,
    days: int,
    figure: str,
) -> None:
    earlier = week_before if days == 7 else values(sightings, *_window(days))
    oracle = changes(earlier, week_values)
    told = {(row.gpu, row.market, row.tier): row for row in digest.rows}
    compared = 0
    for key, row in told.items():
        change, matched = getattr(row, f"change_{figure}"), getattr(row, f"matched_{figure}")
        if change is None:
            assert key not in oracle.index
            continue
        assert float(change) == pytest.approx(oracle.loc[key, "share"], abs=2e-6), key
        assert matched == oracle.loc[key, "n"], key
        compared += 1
    assert compared == len(oracle) > 20


def test_the_moves_are_those_of_three_percent_and_two_cents(
    digest: Digest, week_before: pd.DataFrame, week_values: pd.DataFrame
) -> None:
    oracle = changes(week_before, week_values)
    large = oracle[
        (oracle["share"].abs() >= 0.03)
        & ((oracle["usd_after"] - oracle["usd_before"]).abs() >= 0.02)
    ]
    told = {(move.gpu, move.market, move.tier): move for move in digest.moves}
    assert len(told) == 8
    assert len(told) + digest.more_moves == len(large)
    assert set(told) < set(large.index)
    broad = {key for key, move in told.items() if move.offers >= 5}
    assert broad == set(large.index[large["n"] >= 5]), "what is broad comes first"
    assert len(broad) == 3
    for key, move in told.items():
        assert float(move.before) == pytest.approx(large.loc[key, "usd_before"], abs=2e-6)
        assert float(move.after) == pytest.approx(large.loc[key, "usd_after"], abs=2e-6)
        assert move.offers == large.loc[key, "n"]
        assert move.standing == ("large" if key in broad else "thin"), "too young for more"


def test_the_cheapest_offers_and_the_widest_spread_are_those_of_the_last_look(
    digest: Digest, sightings: pd.DataFrame, week_values: pd.DataFrame
) -> None:
    end = pd.Timestamp(_window(0)[1])
    last = sightings[sightings["look"] <= end].groupby("offer")["look"].max()
    newest = sightings[sightings["look"] <= end].groupby("provider")["look"].max()
    there = week_values[week_values["offer"].map(last) == week_values["provider"].map(newest)]
    cheapest = there.groupby(SERIES)["usd"].min()
    for row in digest.rows:
        key = (row.gpu, row.market, row.tier)
        if row.cheapest is None:
            assert key not in cheapest.index
        else:
            assert float(row.cheapest.usd_per_gpu_hour) == pytest.approx(cheapest[key], abs=2e-6)
    best = there.groupby([*SERIES, "provider"])["usd"].min().groupby(SERIES)
    ratios = (best.max() / best.min())[best.size() >= 3]
    assert digest.spread is not None
    assert float(digest.spread.ratio) == pytest.approx(ratios.max(), abs=1e-5)


def test_it_reads_as_a_newsletter(digest: Digest) -> None:
    """Whoever wants to read it: ``DIGEST_OUT=folder pytest …`` writes both forms."""
    layout = layout_of(digest)
    markdown, page = markdown_of(layout), html_of(layout)
    assert markdown.startswith("# GPU prices, week 2026-W32\n\n**B200 180GB on demand rose 7 %")
    assert len(markdown.split()) < 1400, "some 90 seconds for whoever skips the tables"
    assert len(page.encode()) < 85_000
    if folder := os.environ.get("DIGEST_OUT"):
        Path(folder, "digest.md").write_text(markdown, "utf-8")
        Path(folder, "digest.html").write_text(page, "utf-8")
