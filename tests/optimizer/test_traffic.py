"""Traffic from rows: profile, quantiles, computed headroom, and files with faults."""

from __future__ import annotations

import csv
import gzip
import io
import math
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pytest
from scipy.stats import poisson

from core.errors import InputError
from optimizer.headroom import Load, headroom, headroom_of_profile
from optimizer.traffic import Question, Traffic, traffic_of
from optimizer.traffic_rows import Rates, Requests, read_rows
from tests.shared import shared

MONDAY = datetime(2026, 3, 2, tzinfo=UTC)


def rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text))
    for row in reader:
        yield reader.line_num, row


def read(text: str, **changes: Any) -> Traffic:
    question = Question(**changes)
    return traffic_of(read_rows("t.csv", rows(text), local=question.zone), question)


def hourly(hours: int, rate: Any, start: datetime = MONDAY) -> str:
    lines = [f"{start + timedelta(hours=h):%Y-%m-%dT%H:%M:%SZ},{rate(h)}" for h in range(hours)]
    return "timestamp,rps\n" + "\n".join(lines)


def test_24_hours_give_their_rates_between_the_quantiles_and_grow() -> None:
    text = "hour,rps,tokens_in,tokens_out\n" + "\n".join(f"{h},{h + 1},100,{h}" for h in range(24))
    found = read(text, growth=2.0, floor_quantile=0.0, ceiling_quantile=0.5)
    assert found.floor == 2.0
    assert found.ceiling == pytest.approx(2 * 12.5)  # the median of 1..24
    assert found.rates[:3] == (2.0, 4.0, 6.0)
    assert max(found.rates) == found.ceiling
    assert found.tokens_in == 100
    # mean of h weighted with h + 1: sum h(h+1) / sum (h+1) = 4600 / 300
    assert found.tokens_out == pytest.approx(4600 / 300)


def test_headroom_of_seen_minutes_is_their_quantile() -> None:
    loads = [Load(rate, 10.0, 60.0) for rate in range(1, 21)]  # 19 of 20 minutes need <= 19
    assert headroom(loads, 0.95, None).value == pytest.approx(0.9, abs=1e-6)
    assert headroom(loads, 0.5, None).value == 0.0


def test_headroom_of_rates_alone_is_the_poisson_quantile() -> None:
    found = headroom_of_profile([1.0], 0.95)
    count = 60 * (1 + found.value)
    assert poisson.cdf(math.floor(count), 60) <= 0.95 <= poisson.cdf(math.ceil(count), 60)
    assert found.value == pytest.approx(1.645 / math.sqrt(60), rel=0.07)
    # Four times the rate: half the headroom, about; twice the CV: twice.
    assert headroom_of_profile([4.0], 0.95).value == pytest.approx(found.value / 2, rel=0.05)
    assert headroom_of_profile([1.0], 0.95, 2.0).value == pytest.approx(2 * found.value, rel=0.1)


def test_a_week_of_requests_gives_168_hours_and_minute_peaks() -> None:
    # Each hour: 59 quiet minutes of one request, and every 20th minute six of them.
    at = [
        MONDAY + timedelta(minutes=m, seconds=s)
        for m in range(14 * 24 * 60)
        for s in (range(0, 60, 10) if m % 20 == 0 else (0,))
    ]
    text = "timestamp,tokens_in,tokens_out\n" + "\n".join(f"{t.isoformat()},900,90" for t in at)
    found = read(text, headroom_quantile=0.96)
    assert len(found.rates) == 168
    rate = (57 + 3 * 6) / 3600
    assert found.rates == pytest.approx((rate,) * 168)
    # 5 % of the minutes have 6 requests: 0.1/s against 0.02083/s is 3.8 more.
    assert found.headroom.value == pytest.approx(0.1 / rate - 1, rel=1e-6)
    assert read(text, headroom_quantile=0.94).headroom.value == 0.0
    assert (found.tokens_in, found.tokens_out) == (900, 90)


def test_gaps_disorder_and_partial_weeks_are_handled_and_said() -> None:
    lines = hourly(180, lambda h: 5 + h % 24).splitlines()
    del lines[31:34]  # Tuesday 06:00-08:00
    lines[5], lines[6] = lines[6], lines[5]
    found = read("\n".join(lines), floor_quantile=0.0, ceiling_quantile=1.0)
    said = " ".join(found.notes)
    assert "not in the order of time (1 steps back)" in said
    assert "3 windows of 3600 s are missing" in said
    assert "3 of 168 hours have no data (Tuesday 06:00" in said
    assert "rest on 0 to 2 observations" in said
    # Monday 12:00 on comes round again; 06:00 of other days is 11.
    assert found.rates[24 + 6] == pytest.approx(11)
    with pytest.raises(InputError, match="give a day or more"):
        read(hourly(20, lambda _: 1))


def test_clock_changes_are_counted_and_said() -> None:
    """Berlin sets its clock forward on 29 March 2026: local 02:00 does not exist."""
    start = datetime(2026, 3, 25, 23, tzinfo=UTC)  # midnight in Berlin
    berlin = ZoneInfo("Europe/Berlin")

    def local(h: int) -> int:
        return (start + timedelta(hours=h)).astimezone(berlin).hour

    found = read(hourly(120, local, start), timezone="Europe/Berlin", floor_quantile=0,
                 ceiling_quantile=1)  # fmt: skip
    assert found.rates == pytest.approx(range(24))
    assert "clock changes on 2026-03-29" in " ".join(found.notes)
    utc = read(hourly(120, local, start), floor_quantile=0, ceiling_quantile=1)
    assert utc.rates != found.rates


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("timestamp,rps\n2026-03-02,1\n2026-03-02T01:00,-4", "line 3, column rps: '-4'; write a"),
        ("timestamp,rps\n2026-03-02,1\n2026-03-02T01:00,nan", "line 3, column rps: 'nan'; write"),
        ("timestamp,rps\n2026-03-02,", "line 2, column rps: nothing; write a number"),
        ("timestamp,tokens_in\n2026-03-02,1\nyesterday,2", "line 3, column timestamp: 'yesterday'"),
        ("timestamp,tokens_in\n2026-03-02,1e9", "column tokens_in: '1e9'; write at most"),
        ("hour,rps\n0,1\n1,2", "2 rows of hour,rps; give 24 or 168"),
        ("hour,rps\n" + "0,1\n" * 24, "line 3, column hour: '0'; write each hour once; line 2"),
        ("hour,rps\n" + "".join(f"{h},0\n" for h in range(24)), "there is nothing to serve"),
        ("when,what\n1,2", "columns what, when are not known; give timestamp"),
        ("timestamp\n1e300\n2e300", "check the years and the unit"),
        ("timestamp\n2026-03-02\n1026-03-02", "span 3.652e+05 days; check the years"),
        ("timestamp\n", "no rows; give a header"),
        ("timestamp\n5\n1772000000", "column timestamp: '5'; write all times since 1970"),
    ],
)
def test_a_bad_file_is_refused_by_line_and_column(text: str, said: str) -> None:
    with pytest.raises(InputError) as refused:
        read(text)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"growth": 0.0}, "growth 0"),
        ({"floor_quantile": 0.9, "ceiling_quantile": 0.5}, "exchange them"),
        ({"headroom_quantile": 1.0}, "headroom_quantile 1"),
        ({"timezone": "Mars/Base"}, "timezone 'Mars/Base'"),
        ({"burstiness": math.nan}, "burstiness nan"),
    ],
)
def test_a_bad_option_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Question(**changes)


def published(name: str, series: str = "") -> Requests | Rates:
    with gzip.open(shared("data", name), "rt", encoding="utf-8") as file:
        return read_rows(name, rows(file.read()), series=series)


@pytest.mark.shared
def test_public_traces_give_their_published_figures() -> None:
    azure = traffic_of(published("AzureLLMInferenceTrace_conv_2023.csv.gz"), Question())
    assert azure.rows == 19_366
    assert (round(azure.tokens_in or 0), round(azure.tokens_out or 0)) == (1155, 211)
    assert azure.span_hours * 60 == pytest.approx(58.4, abs=0.05)
    assert 37 / 60 < azure.floor < 5.5 < azure.ceiling < 507 / 60
    assert "no daily shape" in azure.notes[-1]
    moon = traffic_of(published("mooncake_conversation_trace.csv.gz"), Question())
    assert (moon.rows, round(moon.tokens_in or 0), round(moon.tokens_out or 0)) == (
        12_031, 12_035, 343,
    )  # fmt: skip
    with pytest.raises(InputError, match="choose one with --series"):
        published("llm_servegen_10min.csv.gz")
    data = published("llm_servegen_10min.csv.gz", "language/m-large")
    assert isinstance(data, Rates)
    fortnight = traffic_of(data, Question())
    assert (len(fortnight.rates), fortnight.span_hours) == (168, 336)
    assert fortnight.floor == pytest.approx(float(np.quantile(data.rate, 0.1)))
    assert fortnight.headroom.burstiness == pytest.approx(data.burstiness)
