"""Money: exact storage in nano-USD, and price texts that are read or refused, never guessed."""

from __future__ import annotations

import csv
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.money import Locale, decimal_of, from_nano, parse_price, plain, to_nano
from tests.shared import shared

LOCALES: dict[str, Locale | None] = {
    "html en-US": "en-US",
    "html de-DE": "de-DE",
    "html en-US monthly column": "en-US",
    "html no locale": None,
    "machine attribute (JSON/microdata)": "machine",
}
COLUMN_UNIT = {"html en-US monthly column": "month"}
"""What the page says beside the text; the text itself names no unit there."""


def price_cases() -> list[dict[str, str]]:
    with shared("cases", "b01_price_strings.csv").open(newline="", encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def test_recorded_price_texts_mean_what_a_reader_of_the_page_sees() -> None:
    cases = price_cases()
    assert len(cases) == 11
    for case in cases:
        locale = LOCALES[case["context"]]
        expected = case["expected_amount"]
        if expected in {"AMBIGUOUS", "SUSPECT_ZERO"}:
            word = "ambiguous" if expected == "AMBIGUOUS" else "zero"
            with pytest.raises(ValueError, match=word):
                parse_price(case["raw"], locale)
            continue
        price = parse_price(case["raw"], locale)
        if expected == "NONE":
            assert price is None, case
            continue
        assert price is not None, case
        assert price.amount == Decimal(expected), case
        assert price.currency == case["expected_currency"], case
        unit = price.unit or COLUMN_UNIT.get(case["context"], "")
        assert unit == case["expected_unit"].replace("unknown", ""), case
        assert price.starting == case["raw"].startswith("From"), case


@pytest.mark.parametrize(
    ("text", "locale"),
    [
        ("$1.600,00", "en-US"),
        ("1,60 €", "en-US"),
        ("1.60 €", "de-DE"),
        ("1,600.00", "machine"),
        ("1.600.000", "machine"),
        ("1,600", None),
        ("1.600.000", None),
        ("$2.49 $1.99", "en-US"),
        ("$2.49 - $3.99", "en-US"),
        ("$2.49 €", "en-US"),
        ("$12,34.00", "en-US"),
        ("0", "machine"),
        ("$0", "en-US"),
    ],
)
def test_a_text_with_two_readings_or_none_of_the_locale_is_refused(
    text: str, locale: Locale | None
) -> None:
    with pytest.raises(ValueError):
        parse_price(text, locale)


@pytest.mark.parametrize(
    ("text", "unit"),
    [
        ("$2.49/hr", "hour"),
        ("$2.49 per hour", "hour"),
        ("$2.49/GPU/hr", "gpu-hour"),
        ("$2.49 / GPU / hr", "gpu-hour"),
        ("$2.49 per GPU-hour", "gpu-hour"),
        ("$2.49/GPU/h", "gpu-hour"),
        ("$2.49/mo", "month"),
        ("$2.49 per month", "month"),
        ("$2.49", ""),
    ],
)
def test_units_are_read_and_a_gpu_hour_is_not_an_hour(text: str, unit: str) -> None:
    price = parse_price(text, "en-US")
    assert price is not None
    assert (price.amount, price.unit) == (Decimal("2.49"), unit)


@given(st.integers(1, 10**9 - 1), st.integers(0, 99))
def test_a_number_written_by_a_locale_is_read_back(whole: int, cents: int) -> None:
    amount = Decimal(whole) + Decimal(cents) / 100
    american = f"{whole:,}.{cents:02d}"
    german = american.translate(str.maketrans(",.", ".,"))
    written: list[tuple[str, Locale | None]] = [
        (f"${american}/hr", "en-US"),
        (f"{german} €", "de-DE"),
        (f"{whole}.{cents:02d}", "machine"),
        (f"{whole}.{cents:02d}", None),
    ]
    for text, locale in written:
        price = parse_price(text, locale)
        assert price is not None
        assert price.amount == amount, text


@given(st.text(max_size=60), st.sampled_from([None, "en-US", "de-DE", "machine"]))
def test_any_text_is_a_positive_price_no_price_or_refused(text: str, locale: Locale | None) -> None:
    try:
        price = parse_price(text, locale)
    except ValueError:
        return
    assert price is None or price.amount > 0


@given(st.text("0123456789.,  $€", max_size=14), st.sampled_from(["en-US", "de-DE", "machine"]))
def test_digits_are_never_lost_or_moved(text: str, locale: Locale) -> None:
    """Independent reading: without its marks, the number's digits are those of the text."""
    try:
        price = parse_price(text, locale)
    except ValueError:
        return
    digits = "".join(c for c in text if c.isdigit())
    if price is None:
        assert digits == ""
    else:
        _, written, exponent = price.amount.as_tuple()
        assert isinstance(exponent, int)
        assert "".join(map(str, written)).lstrip("0") == digits.lstrip("0")


LARGEST = 2**63 - 1


@given(st.integers(-LARGEST, LARGEST))
def test_every_stored_amount_comes_back_exactly(nano: int) -> None:
    amount = from_nano(nano)
    assert to_nano(amount) == nano
    assert Fraction(amount) == Fraction(nano, 10**9)


@given(
    st.decimals(-(10**9), 10**9, allow_nan=False, allow_infinity=False, places=12),
)
def test_rounding_to_nano_is_to_the_nearest_and_half_to_even(amount: Decimal) -> None:
    nano = to_nano(amount)
    assert nano == round(Fraction(amount) * 10**9)
    assert abs(Fraction(from_nano(nano)) - Fraction(amount)) <= Fraction(1, 2 * 10**9)


@given(st.integers(-(10**15), 10**15), st.integers(0, 9))
def test_amounts_of_up_to_nine_places_survive_storage(units: int, places: int) -> None:
    amount = Decimal(units).scaleb(-places)
    assert from_nano(to_nano(amount)) == amount
    assert Decimal(plain(amount)) == amount


def test_a_long_fraction_is_rounded_once() -> None:
    just_above_half = Decimal("0.0000000025" + "0" * 30 + "1")
    assert to_nano(just_above_half) == 3
    assert to_nano(Decimal("0.0000000025")) == 2
    assert to_nano(Decimal("1e-999999")) == 0


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_what_is_not_finite_is_never_stored(text: str) -> None:
    with pytest.raises(ValueError, match="finite"):
        to_nano(Decimal(text))


@pytest.mark.parametrize("text", ["9223372036.854775808", "1e30", "-1e12", "1e999999"])
def test_what_does_not_fit_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="too large"):
        to_nano(Decimal(text))


@pytest.mark.parametrize(
    ("amount", "text"),
    [
        ("1E+3", "1000"),
        ("2.50", "2.5"),
        ("0.000000001", "0.000000001"),
        ("-0", "0"),
        ("0.00", "0"),
        ("-1.10", "-1.1"),
    ],
)
def test_plain_writes_no_exponent_and_no_spare_zeros(amount: str, text: str) -> None:
    assert plain(Decimal(amount)) == text


def test_a_binary_float_keeps_its_shortest_text() -> None:
    assert decimal_of(0.1) == Decimal("0.1")
    assert decimal_of(" 12.5 ") == Decimal("12.5")
    assert decimal_of(7) == Decimal(7)


@pytest.mark.parametrize(
    "value", [None, True, False, "", "1,5", "x", "NaN", "Infinity", float("nan"), [], {}]
)
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(ValueError, match="number"):
        decimal_of(value)
