from __future__ import annotations

import base64
import hashlib
import hmac
from datetime import UTC, datetime, timedelta, timezone

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st
from standardwebhooks import Webhook, WebhookVerificationError

from core.errors import InputError
from notify.signing import headers, key_of, new_secret
from tests.shared import shared

AT = datetime(2025, 12, 1, tzinfo=UTC)
SECRET = new_secret(lambda count: bytes(range(count)))
OTHER = new_secret(lambda count: bytes(range(1, count + 1)))
BODY = '{"note":"−15.7 % · Zürich €"}'.encode()


def accepts(secret: str, body: bytes, signed: dict[str, str], now: datetime = AT) -> bool:
    """Whether an independent receiver takes the request."""
    with time_machine.travel(now, tick=False):
        try:
            Webhook(secret).verify(body, signed)
        except WebhookVerificationError:
            return False
    return True


def test_an_independent_library_accepts_what_we_sign() -> None:
    assert accepts(SECRET, BODY, headers("msg_1", AT, BODY, [SECRET]))


def test_the_recorded_body_is_signed_over_its_very_bytes() -> None:
    body = shared("cases", "b19_webhook_body.json").read_bytes()
    assert len(body) == 134
    assert AT.timestamp() == 1764547200
    signed = headers("evt-0001", AT, body, [SECRET])
    assert accepts(SECRET, body, signed)
    # The case's own figure, by the primitive that we use: HMAC over "t.body".
    plain = hmac.new(b"test-secret-not-real", b"1764547200." + body, hashlib.sha256)
    expected = "c2275b40724d9ead635733a90f61ce09a52f96cdeb404af4aa3cf24de96f6e4f"
    assert plain.hexdigest() == expected


@given(st.binary(max_size=200), st.data())
def test_one_changed_byte_is_noticed(body: bytes, data: st.DataObject) -> None:
    body += b"{}"
    signed = headers("msg_1", AT, body, [SECRET])
    at = data.draw(st.integers(0, len(body) - 1))
    changed = body[:at] + bytes([body[at] ^ 1]) + body[at + 1 :]
    theirs = signed["webhook-signature"]
    assert headers("msg_1", AT, changed, [SECRET])["webhook-signature"] != theirs


def test_a_changed_byte_an_old_time_another_id_or_secret_are_refused_by_the_receiver() -> None:
    signed = headers("msg_1", AT, BODY, [SECRET])
    assert not accepts(SECRET, BODY.replace(b"15", b"16"), signed)
    assert not accepts(SECRET, BODY, signed, AT + timedelta(minutes=6))
    assert not accepts(SECRET, BODY, {**signed, "webhook-id": "msg_2"})
    assert not accepts(OTHER, BODY, signed)


def test_while_a_secret_rotates_receivers_with_either_accept() -> None:
    signed = headers("msg_1", AT, BODY, [OTHER, SECRET])
    assert len(signed["webhook-signature"].split(" ")) == 2
    assert accepts(SECRET, BODY, signed)
    assert accepts(OTHER, BODY, signed)


def test_two_attempts_differ_in_the_time_alone() -> None:
    first = headers("msg_1", AT, BODY, [SECRET])
    later = headers("msg_1", AT + timedelta(seconds=5), BODY, [SECRET])
    assert first["webhook-id"] == later["webhook-id"]
    assert int(later["webhook-timestamp"]) - int(first["webhook-timestamp"]) == 5
    assert accepts(SECRET, BODY, later, AT + timedelta(seconds=5))


def test_the_time_zone_of_the_clock_does_not_change_the_signature() -> None:
    elsewhere = AT.astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert headers("m", elsewhere, BODY, [SECRET]) == headers("m", AT, BODY, [SECRET])


def test_a_new_secret_holds_the_random_bytes() -> None:
    assert key_of(SECRET) == bytes(range(32))


@pytest.mark.parametrize(
    "secret",
    ["hush", "whsec_", "whsec_hush!", "whsec_" + base64.b64encode(b"x" * 23).decode()],
)
def test_a_malformed_secret_is_refused_and_not_repeated(secret: str) -> None:
    with pytest.raises(InputError, match="whsec_ and the base64 of 24 to 64") as caught:
        headers("m", AT, BODY, [secret])
    assert "hush" not in str(caught.value)


def test_no_secret_and_a_dotted_id_are_refused() -> None:
    with pytest.raises(InputError, match="endpoints rotate"):
        headers("m", AT, BODY, [])
    with pytest.raises(ValueError, match="without dots"):
        headers("m.1", AT, BODY, [SECRET])
