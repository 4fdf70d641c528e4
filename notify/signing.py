"""Signatures of webhooks after Standard Webhooks 1.0.0 (symmetric, ``v1``).

The signature is HMAC-SHA256 over ``{id}.{timestamp}.{body}`` with the decoded bytes of the secret,
over exactly the bytes that are sent. The id stays the same for every attempt, the timestamp is
that of the attempt, so a receiver can drop repeats and refuse old requests.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Sequence
from datetime import datetime

from core.clock import require_utc
from core.errors import InputError

PREFIX = "whsec_"
SECRET_BYTES = 32
"""Length of secrets that we make; receivers' own may have 24 to 64 bytes."""


def new_secret(random_bytes: Callable[[int], bytes]) -> str:
    """Return a fresh signing secret.

    Args:
        random_bytes: gives so many unpredictable bytes, e.g. ``secrets.token_bytes``.
    """
    return PREFIX + base64.b64encode(random_bytes(SECRET_BYTES)).decode("ascii")


def key_of(secret: str) -> bytes:
    """Return the key inside a ``whsec_…`` secret.

    Raises:
        InputError: it is no such secret; the message does not repeat it.
    """
    try:
        if not secret.startswith(PREFIX):
            raise ValueError
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True)
        if not 24 <= len(key) <= 64:
            raise ValueError
    except (ValueError, binascii.Error):
        raise InputError(
            f"secret: must be {PREFIX} and the base64 of 24 to 64 random bytes"
        ) from None
    return key


def headers(message_id: str, at: datetime, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """Return the three headers of one attempt.

    Args:
        message_id: the same for every attempt; without dots.
        at: when this attempt is made, in any time zone.
        body: the bytes that are sent.
        secrets: one, or two while a secret is being rotated (the new one first).

    Raises:
        InputError: a secret is malformed, or there is none.
        ValueError: the id holds a dot, or the time has no zone.
    """
    if not message_id or "." in message_id:
        raise ValueError(f"id: {message_id!r} must be non-empty and without dots")
    if not secrets:
        raise InputError("secret: there is none; run 'spotfloor endpoints rotate'")
    timestamp = int(require_utc(at).timestamp())
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": " ".join(
            _signature(message_id, timestamp, body, key_of(secret)) for secret in secrets
        ),
    }


def _signature(message_id: str, timestamp: int, body: bytes, key: bytes) -> str:
    signed = f"{message_id}.{timestamp}.".encode() + body
    digest = hmac.new(key, signed, hashlib.sha256).digest()
    return "v1," + base64.b64encode(digest).decode("ascii")
