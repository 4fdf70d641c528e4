"""What is sent, and what came back: plain values between renderers, transports and the schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """A POST. Address, headers and body hold secrets and stay out of ``repr``.

    Attributes:
        allow_private: private networks are allowed, by the administrator and the endpoint.
    """

    url: str = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    body: bytes = field(repr=False)
    allow_private: bool = False


@dataclass(frozen=True, slots=True)
class Mail:
    """A mail to be handed to the mail server."""

    message: EmailMessage = field(repr=False)


@dataclass(frozen=True, slots=True)
class AppriseNote:
    """A note for one of Apprise's services.

    Attributes:
        target: Apprise's own address, with its credentials.
    """

    target: str = field(repr=False)
    title: str
    body: str


Outgoing = HttpRequest | Mail | AppriseNote


@dataclass(frozen=True, slots=True)
class Answer:
    """How one attempt ended.

    Attributes:
        status: HTTP status (for mail the SMTP code), None when none came.
        reason: why no status came: ``timeout``, ``connection``, ``tls``, ``dns``, ``protocol``,
            ``refused`` (address guard), ``mail``, ``apprise``, ``local`` (our own trouble, such as
            a missing key), ``broken`` (a message that cannot be rendered or sent); empty when one
            came. ``moved`` comes with a status: the service named a new target.
        detail: one line without secrets, or the beginning of the answer's body.
        retry_after: the header as it came, or seconds as text.
        latency_ms: from the start of the attempt to its end.
        permanent: no later attempt can succeed.
        moved_to: the endpoint's new target, where the service named one.
    """

    status: int | None = None
    reason: str = ""
    detail: str = ""
    retry_after: str = ""
    latency_ms: int = 0
    permanent: bool = False
    moved_to: str = field(default="", repr=False)
