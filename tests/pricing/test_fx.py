"""Euro prices: what a rate file must look like, and how a price is converted, or refused."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Failure, Parsed
from pricing import fx
from pricing.recorded import common_payloads
from pricing.rows import Reject, RowLog
from pricing.source import Payload
from tests.builders import a_provider
from tests.pricing.acceptance import FakeSession, made
from tests.shared import payloads

DAY = date(2026, 10, 28)
AT = datetime(2026, 10, 29, 8, tzinfo=UTC)
CUBES = "".join(
    f"<Cube currency='{code}' rate='{rate}'/>"
    for code, rate in (("USD", "1.1133"), ("JPY", "170.25"), ("GBP", "0.8700"))
)


def ecb(cubes: str = CUBES, day: str = "2026-10-28") -> bytes:
    """A file in the bank's form: three nested levels of Cube in two namespaces."""
    return (
        '<?xml version="1.0" encoding="UTF-8"?>'
        '<gesmes:Envelope xmlns:gesmes="http://www.gesmes.org/xml/2002-08-01"'
        ' xmlns="http://www.ecb.int/vocabulary/2002-08-01/eurofxref">'
        "<gesmes:subject>Reference rates</gesmes:subject>"
        "<gesmes:Sender><gesmes:name>European Central Bank</gesmes:name></gesmes:Sender>"
        f"<Cube><Cube time='{day}'>{cubes}</Cube></Cube></gesmes:Envelope>"
    ).encode()


def own(**changes: object) -> Payload:
    row = {"as_of": "2026-10-28", "base": "EUR", "quote": "USD", "rate": 1.1133}
    return made(row | changes, fx.OWN_FILE)


def read(body: bytes, name: str = fx.ECB_FILE) -> tuple[fx.Rates | None, list[str]]:
    log = RowLog(made(body, name))
    rates = fx.parse_rates(log)
    return rates, [failure.reason for failure in log.done().failures]


def exchange(*files: Payload) -> fx.Exchange:
    return fx.take_rates(files)[0]


def reason_of(found: fx.Exchange, currency: str = "EUR", at: datetime = AT) -> str:
    with pytest.raises(Reject) as refused:
        found.to_usd(Decimal(2), currency, at)
    return refused.value.reason


def test_the_banks_file_gives_its_day_and_every_rate() -> None:
    rates, trouble = read(ecb())
    assert trouble == []
    assert rates == fx.Rates(
        DAY, {"USD": Decimal("1.1133"), "JPY": Decimal("170.25"), "GBP": Decimal("0.8700")}
    )


@pytest.mark.shared
def test_the_recorded_rate_is_read() -> None:
    body = (payloads("common") / fx.OWN_FILE).read_bytes()
    assert read(body, fx.OWN_FILE) == (fx.Rates(DAY, {"USD": Decimal("1.1133")}), [])


def test_of_several_days_the_newest_counts() -> None:
    older, newer = ecb(day="2026-10-27"), ecb(CUBES.replace("1.1133", "1.2"), "2026-10-28")
    both = newer.replace(b"<Cube><Cube", b"<Cube><Cube time='2026-10-26'/><Cube")
    for order in ([older, both], [both, older]):
        found = exchange(*(made(body, fx.ECB_FILE) for body in order))
        assert found.rates is not None
        assert (found.rates.day, found.rates.per_eur["USD"]) == (DAY, Decimal("1.2"))


def test_a_euro_price_is_multiplied_and_says_by_what() -> None:
    usd, note = exchange(own()).to_usd(Decimal("23.028"), "EUR", AT)
    assert usd == Decimal("25.6370724")
    assert note == "23.028 EUR at 1.1133 USD, reference rate of 2026-10-28"


def test_a_dollar_price_needs_no_rate_and_stays_as_it_is() -> None:
    assert exchange().to_usd(Decimal("3.99"), "USD", AT) == (Decimal("3.99"), "")
    assert exchange().done().failures == []


def test_another_currency_goes_through_the_euro() -> None:
    usd, note = exchange(made(ecb(), fx.ECB_FILE)).to_usd(Decimal(100), "GBP", AT)
    # 1 GBP = 1.1133 / 0.87 USD = 1.279655172..., by long division
    assert usd == Decimal("127.9655172")
    assert "1.279655172 USD" in note


def test_without_a_rate_a_euro_price_is_refused_and_the_run_must_not_close_its_offers() -> None:
    found = exchange()
    assert reason_of(found) == "no_fx_rate"
    assert [failure.reason for failure in found.done().failures] == ["no_fx_rate"]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_rate_too_far_from_the_price_is_refused(sign: int) -> None:
    found = exchange(own())
    noon = datetime(2026, 10, 28, 12, tzinfo=UTC)
    limit = timedelta(days=fx.MAX_DAYS_APART)
    assert found.to_usd(Decimal(2), "EUR", noon + sign * limit).usd == Decimal("2.2266")
    assert reason_of(found, at=noon + sign * (limit + timedelta(days=1))) == "stale_fx_rate"
    assert [failure.reason for failure in found.done().failures] == ["stale_fx_rate"]


def test_a_currency_that_the_day_does_not_name_is_refused() -> None:
    assert reason_of(exchange(own()), "GBP") == "currency"


def test_price_lists_are_left_alone_and_a_bad_rate_file_is_a_failure() -> None:
    price, bad = made({"a": 1}, "list.json"), made(b"<html>no", fx.ECB_FILE)
    found, rest = fx.take_rates([price, bad])
    assert rest == [price]
    assert [(f.reason, f.source_file) for f in found.done().failures] == [("bad_xml", fx.ECB_FILE)]
    assert reason_of(found) == "no_fx_rate"
    assert len(found.done().failures) == 1, "the bad file explains the refused price"


def test_a_bad_file_beside_a_good_one_costs_nothing() -> None:
    found = exchange(made(b"", fx.ECB_FILE), own())
    assert found.to_usd(Decimal(1), "EUR", AT).usd == Decimal("1.1133")
    assert found.done().failures == []


BOMB = b'<!DOCTYPE a [<!ENTITY x "1.1"><!ENTITY y "&x;&x;&x;">]><a>&y;</a>'


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "empty_body"),
        (BOMB, "bad_xml"),
        (ecb()[:200], "bad_xml"),
        (ecb().replace(b"1.1133", b"11.133"), "implausible_rate"),
        (ecb().replace(b"1.1133", b"0.11133"), "implausible_rate"),
        (ecb().replace(b"1.1133", b"0"), "implausible_rate"),
        (ecb().replace(b"1.1133", b"-1.1133"), "implausible_rate"),
        (ecb().replace(b"170.25", b"1e99"), "implausible_rate"),
        (ecb().replace(b"1.1133", b"1,1133"), "bad_value"),
        (ecb().replace(b"1.1133", b"NaN"), "bad_value"),
        (ecb().replace(b"'USD'", b"'usd'"), "bad_value"),
        (ecb().replace(b"'JPY'", b"'USD'"), "bad_value"),
        (ecb("<Cube currency='GBP' rate='0.87'/>"), "not_a_rate_list"),
        (ecb().replace(b"time=", b"date="), "not_a_rate_list"),
        (ecb(day="28 October 2026"), "bad_value"),
        (b"<html><title>Just a moment...</title></html>", "block_page"),
        (b" " * (2**20 + 1), "too_large"),
        (b'{"as_of": "2026-10-28", "base": "EUR", "quote": "USD"}', "missing_field"),
        (b'{"as_of": "2026-10-28", "base": "USD", "quote": "EUR", "rate": 0.9}', "currency"),
        (b'{"as_of": "2026-10-28", "base": "EUR"', "truncated"),
        (b'{"as_of": null, "base": "EUR", "quote": "USD", "rate": 1.1}', "bad_value"),
    ],
)
def test_a_file_that_is_no_rate_list_is_a_failure_by_reason(body: bytes, reason: str) -> None:
    assert read(body) == (None, [reason])


@settings(max_examples=300)
@given(st.binary() | st.text().map(str.encode) | st.from_regex(r"[{<\[].*").map(str.encode))
def test_any_bytes_give_rates_or_exactly_one_failure(body: bytes) -> None:
    rates, trouble = read(body)
    assert (rates is None) == (len(trouble) == 1)


@settings(max_examples=200)
@given(st.data())
def test_changed_bytes_of_a_good_file_never_raise(data: st.DataObject) -> None:
    body = bytearray(ecb())
    for _ in range(data.draw(st.integers(1, 6))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    rates, _ = read(bytes(body))
    low, high = fx.PLAUSIBLE_USD_PER_EUR
    assert rates is None or low <= rates.per_eur["USD"] <= high


@given(st.recursive(st.none() | st.booleans() | st.floats() | st.text(), st.lists))
def test_any_value_in_any_field_never_raises(value: object) -> None:
    row = {"as_of": "2026-10-28", "base": "EUR", "quote": "USD", "rate": 1.1133}
    for key in row:
        read(json.dumps(row | {key: value}).encode(), fx.OWN_FILE)


@given(st.decimals("0.0001", "100000", places=6), st.decimals("0.6", "1.9", places=4))
def test_there_and_back_again_the_amount_is_the_same(amount: Decimal, rate: Decimal) -> None:
    usd = exchange(own(rate=str(rate))).to_usd(amount, "EUR", AT).usd
    assert abs(usd / rate - amount) <= amount * Decimal("1e-20")


def test_the_rates_are_fetched_from_the_bank_and_a_failure_is_handed_on() -> None:
    session = FakeSession(lambda _: ecb())
    got = fx.fetch_rates(session)
    assert isinstance(got, Payload)
    assert (got.name, session.requests[0][1]) == (fx.ECB_FILE, fx.ECB_URL)
    refused = FakeSession(lambda _: SourceError("HTTP 503", reason="http_503"))
    failed = fx.fetch_rates(refused)
    assert isinstance(failed, Failure)
    assert (failed.reason, failed.source_file) == ("http_503", fx.ECB_FILE)


def test_a_recorded_folder_finds_the_shared_rates_unless_it_has_its_own(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "common" / fx.OWN_FILE).write_bytes(own().read())
    (tmp_path / "common" / "other.json").write_bytes(b"{}")
    provider = a_provider(lambda _: Parsed(), common=fx.RATE_FILES)
    folder = tmp_path / provider.name
    found = common_payloads(provider, folder, AT, ["list.json"])
    assert [(p.name, p.fetched_at) for p in found] == [(fx.OWN_FILE, AT)]
    assert common_payloads(provider, folder, AT, ["list.json", fx.ECB_FILE]) == []
    assert common_payloads(a_provider(lambda _: Parsed()), folder, AT, ["list.json"]) == []
