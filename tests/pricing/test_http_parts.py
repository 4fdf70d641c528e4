"""The pure parts of the HTTP edge: pacing, waits, addresses, decoding."""

from __future__ import annotations

import gzip
import zlib
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import SourceError
from pricing.addresses import is_allowed, is_secret_name, public_url, sample_text, secrets_of
from pricing.bodies import Spool, decoded, receive
from pricing.failures import status_error
from pricing.pace import Pace
from pricing.retry import retry_after, wait_before_retry

NOW = datetime(2026, 12, 1, tzinfo=UTC)

# --- pacing --------------------------------------------------------------------------------


@given(
    pauses=st.lists(st.integers(0, 4000), min_size=1, max_size=40),
    gap=st.integers(1, 5),
    burst=st.integers(1, 4),
)
def test_no_stretch_of_time_holds_more_departures_than_burst_plus_its_length(
    pauses: list[int], gap: int, burst: int
) -> None:
    pace, now, left = Pace(), 0.0, []
    for pause in pauses:
        now += pause / 1000
        wait = pace.reserve("h", now, gap=gap, burst=burst, at_most=1e9)
        assert wait is not None
        now += wait
        left.append(now)
    for first in range(len(left)):
        for last in range(first, len(left)):
            stretch = left[last] - left[first]
            assert last - first + 1 <= burst + stretch / gap + 1e-6


@given(pauses=st.lists(st.integers(0, 3000), min_size=1, max_size=30))
def test_a_rested_host_is_never_made_to_wait(pauses: list[int]) -> None:
    pace, now = Pace(), 0.0
    for pause in pauses:
        now += 1 + pause / 1000  # never faster than one a second
        assert pace.reserve("h", now, gap=1, burst=2, at_most=0) == pytest.approx(0)


def test_a_departure_that_is_too_late_is_not_taken() -> None:
    pace = Pace()
    assert pace.reserve("h", 0, gap=100, burst=1, at_most=5) == 0
    for _ in range(3):
        assert pace.reserve("h", 1, gap=100, burst=1, at_most=5) is None
    assert pace.reserve("h", 1, gap=100, burst=1, at_most=99) == 99


# --- waits ---------------------------------------------------------------------------------

SERVED = "Tue, 01 Dec 2026 00:00:20 GMT"


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "120"}, 120),
        ({"retry-after": " 0 "}, 0),
        ({"retry-after": "Tue, 01 Dec 2026 00:00:30 GMT", "date": SERVED}, 10),
        ({"retry-after": "Tue, 01 Dec 2026 00:00:30 GMT"}, 30),
        ({"retry-after": "Tuesday, 01-Dec-26 00:00:30 GMT"}, 30),
        ({"retry-after": "Tue Dec  1 00:00:30 2026"}, 30),
        ({"retry-after": "Tue, 01 Dec 2026 00:00:10 GMT", "date": SERVED}, 0),
        ({"retry-after": "Tue, 01 Dec 2026 00:00:30 GMT", "date": "yesterday"}, 30),
        ({}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": "²"}, None),
        ({"retry-after": "1.5"}, None),
    ],
)
def test_retry_after_is_read_in_all_its_forms(headers: dict[str, str], seconds: int | None) -> None:
    wanted = None if seconds is None else timedelta(seconds=seconds)
    assert retry_after(headers, NOW) == wanted


@given(value=st.text(max_size=40), date=st.text(max_size=40))
def test_no_header_breaks_the_reading_of_retry_after(value: str, date: str) -> None:
    wait = retry_after({"retry-after": value, "date": date}, NOW)
    assert wait is None or wait >= timedelta(0)


def test_back_off_doubles_up_to_its_cap_and_ends_with_the_attempts() -> None:
    error = SourceError("x", reason="http_503", status=503)
    waits = [wait_before_retry(error, attempt, 1000, 0.5) for attempt in (1, 2, 3, 4)]
    assert waits == [1, 2, 4, None]
    assert wait_before_retry(error, 1, 0.9, 0.5) is None
    other = SourceError("x", reason="http_404", status=404)
    assert wait_before_retry(other, 1, 1000, 0.5) is None


# --- addresses and secrets -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("url", "public"),
    [
        ("https://a.example/p?page=2&$filter=x", "https://a.example/p?page=2&$filter=x"),
        ("https://a.example/p?page=2&key=1", "https://a.example/p"),
        ("https://a.example/p?pageToken=abc", "https://a.example/p?pageToken=abc"),
        ("https://a.example/p?KEY", "https://a.example/p"),
        ("https://a.example/p?api%5Fkey=1", "https://a.example/p"),
        ("https://a.example/p?X-Amz-Date=1", "https://a.example/p"),
        ("https://u:p@a.example:8443/p#top", "https://a.example:8443/p"),
    ],
)
def test_addresses_are_stored_without_credentials(url: str, public: str) -> None:
    assert public_url(url) == public


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("key", True), ("api_key", True), ("apikey", True), ("access_token", True), ("sig", True),
        ("AWSAccessKeyId", True), ("Signature", True), ("client_secret", True),
        ("X-Goog-Credential", True), ("nextToken", False), ("$skiptoken", False),
        ("design", False), ("keyword", False), ("region", False),
    ],
)  # fmt: skip
def test_credentials_are_known_by_the_names_of_their_parameters(name: str, secret: bool) -> None:
    assert is_secret_name(name) is secret


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("api.acme.example", True),
        ("eu.cdn.acme.example", True),
        ("cdn.acme.example", False),
        ("evilcdn.acme.example", False),
        ("api.acme.example.evil.example", False),
        ("", False),
    ],
)
def test_a_wildcard_stands_for_names_below_it_only(host: str, allowed: bool) -> None:
    assert is_allowed(host, ("api.acme.example", "*.cdn.acme.example")) is allowed


def test_an_excerpt_is_one_short_line_without_what_we_sent() -> None:
    secrets = secrets_of({"Authorization": "Bearer abcdef123", "Accept": "text/html"}, "sig=QQQQQQ")
    text = sample_text(b"no\n key\tabcdef123 or QQQQQQ \x00\x1b[31m text/html " * 20, secrets, 60)
    assert text.startswith("no key *** or *** ")
    assert "text/html" in text
    assert len(text) == 60
    assert text.isprintable()


@given(
    status=st.integers(100, 599),
    body=st.binary(max_size=200),
    headers=st.dictionaries(st.sampled_from(["retry-after", "date"]), st.text(max_size=20)),
)
def test_every_status_is_a_success_or_an_error_with_a_reason(
    status: int, body: bytes, headers: dict[str, str]
) -> None:
    error = status_error("a.example/p", status, headers, body, frozenset(), NOW)
    assert (error is None) == (200 <= status < 300 and status != 206)
    if error is not None:
        assert error.reason
        assert error.status == status
        assert str(error).isprintable()


# --- bodies --------------------------------------------------------------------------------


def cut(body: bytes, size: int) -> list[bytes]:
    return [body[start : start + size] for start in range(0, len(body), size)]


@given(
    members=st.lists(st.binary(max_size=300), max_size=3),
    repeat=st.sampled_from([1, 1, 5000]),
    size=st.integers(1, 2000),
    padding=st.integers(0, 20),
)
def test_gzip_in_any_pieces_gives_back_what_was_packed(
    members: list[bytes], repeat: int, size: int, padding: int
) -> None:
    packed = b"".join(gzip.compress(member * repeat) for member in members) + bytes(padding)
    pieces = list(decoded(cut(packed, size), "GZIP", "here")) if members else []
    assert b"".join(pieces) == b"".join(member * repeat for member in members)


def test_one_piece_of_gzip_is_never_unpacked_at_once() -> None:
    pieces = list(decoded([gzip.compress(bytes(5 * 2**20))], "gzip", "here"))
    assert sum(map(len, pieces)) == 5 * 2**20
    assert max(map(len, pieces)) <= 256 * 1024


@given(body=st.binary(min_size=1, max_size=300), size=st.integers(1, 50), data=st.data())
def test_gzip_that_stops_anywhere_inside_is_refused(
    body: bytes, size: int, data: st.DataObject
) -> None:
    packed = gzip.compress(body)
    end = data.draw(st.integers(1, len(packed) - 1))
    with pytest.raises(SourceError) as caught:
        list(decoded(cut(packed[:end], size), "gzip", "here"))
    assert caught.value.reason == "bad_encoding"


def outcome(body: bytes) -> bytes | str:
    try:
        return b"".join(decoded([body], "gzip", "here"))
    except SourceError as error:
        return error.reason


@given(
    packed=st.binary(min_size=1, max_size=60).map(gzip.compress),
    where=st.floats(0, 1, exclude_max=True),
    flip=st.integers(1, 255),
)
def test_damaged_gzip_is_refused_or_gives_what_gzip_gives(
    packed: bytes, where: float, flip: int
) -> None:
    spot = int(where * len(packed))
    damaged = packed[:spot] + bytes([packed[spot] ^ flip]) + packed[spot + 1 :]
    try:
        wanted: bytes | str = gzip.decompress(damaged)
    except (OSError, EOFError, zlib.error):
        wanted = "bad_encoding"
    assert outcome(damaged) == wanted


@pytest.mark.parametrize("size", [0, 8 * 2**20, 8 * 2**20 + 1])
def test_bodies_above_eight_mebibytes_are_kept_in_a_file(tmp_path: Path, size: int) -> None:
    spool = Spool(tmp_path)
    body = b"x" * size
    kept = receive(cut(body, 2**20), "", 2**30, spool, "here")
    assert isinstance(kept, Path) == (size > 8 * 2**20)
    assert (kept.read_bytes() if isinstance(kept, Path) else kept) == body
    spool.close()
    assert list(tmp_path.iterdir()) == []
