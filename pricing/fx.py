"""Exchange rates: the European Central Bank's daily euro reference rates, and prices by them.

A price in euro keeps its currency and amount; the US dollar figure beside it is converted by one
dated rate that the offer's note names. The rate is a payload like any other: ``fetch_rates``
gives it to a provider's ``fetch``, ``take_rates`` takes it out of what ``parse`` is given. Without
a usable rate the price is refused, never taken at par.

Formats: the bank's XML (``Cube`` elements, units of a currency per euro) and a small JSON object
of our own, ``{"as_of", "base", "quote", "rate"}``, for people who bring their own rate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import NamedTuple

from lxml import etree

from core.clock import require_utc
from core.errors import SourceError
from core.market import Failure, Parsed
from core.money import decimal_of, plain
from pricing.rows import Reject, RowLog, as_object, load_json, page_problem
from pricing.source import Payload, Session

ECB_URL = "https://www.ecb.europa.eu/stats/eurofxref/eurofxref-daily.xml"
ECB_HOST = "www.ecb.europa.eu"
ECB_FILE = "ecb_eurofxref-daily.xml"
OWN_FILE = "fx_eur_usd.json"
RATE_FILES = (ECB_FILE, OWN_FILE)
"""Names under which rates come; ``Provider.common`` of a provider that is priced in euro."""

BASE = "EUR"
QUOTE = "USD"

MAX_DAYS_APART = 45
"""Days between a price and the rate it is converted by, either way. The bank publishes on every
working day; the rest is for recorded payloads, whose rate may be a little older or newer."""

PLAUSIBLE_USD_PER_EUR = (Decimal("0.5"), Decimal(2))
"""The euro has been worth 0.82 to 1.60 USD since 1999; a figure far outside is a slipped digit."""

_LARGEST_BODY = 2**20
_NANO = Decimal("1e-9")


class Converted(NamedTuple):
    """A price in USD and, for the offer's note, how it came about ("" if it was in USD)."""

    usd: Decimal
    note: str


@dataclass(frozen=True, slots=True)
class Rates:
    """Reference rates of one day.

    Attributes:
        day: the bank's date.
        per_eur: units of each currency per euro; USD is always there.
    """

    day: date
    per_eur: Mapping[str, Decimal]

    def usd_per(self, currency: str) -> Decimal:
        """Return USD for one unit of ``currency``, rounded to 1e-9.

        Raises:
            Reject: the day's rates do not name it.
        """
        if currency == BASE:
            return self.per_eur[QUOTE]
        if currency not in self.per_eur:
            raise Reject("currency", f"no reference rate of {self.day} for {currency!r}")
        return (self.per_eur[QUOTE] / self.per_eur[currency]).quantize(_NANO)

    def convert(self, amount: Decimal, currency: str, at: datetime) -> Converted:
        """Convert an amount that was stated at ``at``.

        Raises:
            Reject: no rate for this currency, or the rate's day is too far from ``at``.
        """
        if currency == QUOTE:
            return Converted(amount, "")
        rate = self.usd_per(currency)
        days = (require_utc(at).date() - self.day).days
        if abs(days) > MAX_DAYS_APART:
            raise Reject(
                "stale_fx_rate",
                f"the reference rate is of {self.day}, {abs(days)} days from the price;"
                f" at most {MAX_DAYS_APART} are accepted",
            )
        note = f"{plain(amount)} {currency} at {plain(rate)} USD, reference rate of {self.day}"
        return Converted(amount * rate, note)


@dataclass(slots=True)
class Exchange:
    """What one parse may convert with; ``done`` says afterwards what went wrong.

    Attributes:
        rates: the newest usable rates among the payloads, None without any.
        failures: rate files that were none.
    """

    rates: Rates | None = None
    failures: list[Failure] = field(default_factory=list)
    _refused: Reject | None = None

    def to_usd(self, amount: Decimal, currency: str, at: datetime) -> Converted:
        """Convert an amount that was stated at ``at``; USD needs no rate.

        Raises:
            Reject: ``no_fx_rate``, ``stale_fx_rate``, or ``currency`` (not among the rates).
        """
        if currency == QUOTE:
            return Converted(amount, "")
        try:
            if self.rates is None:
                raise Reject(
                    "no_fx_rate", f"a price in {currency} and no reference rate; add {ECB_FILE}"
                )
            return self.rates.convert(amount, currency, at)
        except Reject as refused:
            self._refused = self._refused or refused
            raise

    def done(self) -> Parsed:
        """Return failures: unusable rate files without a usable one, or prices refused for it.

        A price that only lacks its rate has not ended, so the run must not close its offers.
        """
        failures = self.failures if self.rates is None else []
        if self._refused is not None and not failures:
            failures = [Failure(self._refused.reason, self._refused.detail, ECB_FILE)]
        return Parsed(failures=list(failures))


def fetch_rates(session: Session) -> Payload | Failure:
    """Fetch today's rates; a failure is yielded like that of any part of a source.

    A provider that calls this lists ``ECB_HOST`` among its hosts.
    """
    try:
        return session.get(ECB_FILE, ECB_URL)
    except SourceError as error:
        return Failure(error.reason, f"exchange rates: {error}", ECB_FILE)


def take_rates(payloads: Sequence[Payload]) -> tuple[Exchange, list[Payload]]:
    """Split the rate files from the price lists; of several days the newest is used."""
    exchange = Exchange()
    prices = []
    for payload in payloads:
        if payload.name not in RATE_FILES:
            prices.append(payload)
            continue
        log = RowLog(payload)
        found = parse_rates(log)
        exchange.failures += log.done().failures
        if found is not None and (exchange.rates is None or found.day > exchange.rates.day):
            exchange.rates = found
    return exchange, prices


def parse_rates(log: RowLog) -> Rates | None:
    """Read one rate file, told apart by content; None after ``log.fail`` for any other bytes."""
    body = log.payload.read()
    if len(body) > _LARGEST_BODY:
        log.fail("too_large", f"{len(body)} bytes, a day's rates are about 2,000")
        return None
    try:
        if body.lstrip()[:1] == b"{":
            return _from_json(log)
        return _from_xml(body)
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
    except KeyError as missing:
        log.fail("missing_field", f"missing field {missing.args[0]!r}")
    except (ValueError, TypeError, ArithmeticError) as bad:
        log.fail("bad_value", f"{bad}")
    return None


def _from_json(log: RowLog) -> Rates | None:
    document = load_json(log)
    if document is None:
        return None
    row = as_object(document, "the document")
    if (row["base"], row["quote"]) != (BASE, QUOTE):
        raise Reject("currency", f"a rate of {row['base']!r} in {row['quote']!r}, not EUR in USD")
    return _checked(str(row["as_of"]), [(QUOTE, row["rate"])])


def _from_xml(body: bytes) -> Rates:
    # A rate file needs no document type; entities defined in one could grow without bounds.
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise Reject(*(page_problem(body) or ("bad_xml", "a document type where none belongs")))
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root = etree.fromstring(body, parser)
    except (etree.XMLSyntaxError, ValueError) as error:
        raise Reject(*(page_problem(body) or ("bad_xml", f"not complete XML: {error}"))) from None
    days = [cube for cube in root.iterfind(".//{*}Cube") if cube.get("time")]
    if not days:
        raise Reject(*(page_problem(body) or ("not_a_rate_list", "no Cube element with a time")))
    newest = max(days, key=lambda cube: str(cube.get("time")))
    pairs = [(cube.get("currency"), cube.get("rate")) for cube in newest.iterfind("{*}Cube")]
    return _checked(str(newest.get("time")), pairs)


def _checked(day: str, pairs: Iterable[tuple[object, object]]) -> Rates:
    """Build rates of which each is a positive number and USD is a plausible one.

    Raises:
        Reject, ValueError: one is not, or a currency comes twice with different rates.
    """
    per_eur: dict[str, Decimal] = {}
    for code, stated in pairs:
        rate = decimal_of(stated)
        if not (isinstance(code, str) and len(code) == 3 and code.isascii() and code.isupper()):
            raise Reject("bad_value", f"not a currency code: {code!r}")
        if not Decimal("1e-6") <= rate <= Decimal("1e9"):
            raise Reject("implausible_rate", f"{rate} {code} per euro")
        if per_eur.setdefault(code, rate) != rate:
            raise Reject("bad_value", f"two rates for {code}: {per_eur[code]} and {rate}")
    low, high = PLAUSIBLE_USD_PER_EUR
    if QUOTE not in per_eur:
        raise Reject("not_a_rate_list", f"no rate for USD on {day[:20]!r}")
    if not low <= per_eur[QUOTE] <= high:
        raise Reject("implausible_rate", f"{per_eur[QUOTE]} USD per euro is not believed")
    return Rates(date.fromisoformat(day), per_eur)
