"""The way out for mail: one conversation with the administrator's mail server."""

from __future__ import annotations

import smtplib
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from urllib.parse import parse_qsl, unquote, urlsplit

from core.errors import ConfigError, InputError
from notify.channels.email import address_of
from notify.outgoing import Answer, Mail
from notify.patience import within

_WRITE = "write smtp://user:password@host:587?from=alerts@example.com"
_STEP = 15.0
"""Seconds for each step of the conversation."""


@dataclass(frozen=True, slots=True)
class MailServer:
    """Where mail is handed over.

    Attributes:
        tls: ``starttls``, ``tls`` (from the start) or ``off``.
        sender: address in ``From``.
    """

    host: str
    port: int
    tls: str
    user: str
    password: str = field(repr=False)
    sender: str


def read_server(url: str) -> MailServer:
    """Read the setting ``smtp_url``.

    Raises:
        ConfigError: it is malformed; the message does not repeat it.
    """
    name = "setting SPOTFLOOR_SMTP_URL"
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
        query = dict(parse_qsl(parts.query, strict_parsing=bool(parts.query)))
    except ValueError:
        raise ConfigError(f"{name}: cannot be read; {_WRITE}") from None
    user, password = unquote(parts.username or ""), unquote(parts.password or "")
    if parts.scheme not in {"smtp", "smtps"} or not host or parts.path not in {"", "/"}:
        raise ConfigError(f"{name}: is no address of a mail server; {_WRITE}")
    tls = query.pop("tls", "tls" if parts.scheme == "smtps" else "starttls")
    if tls not in {"starttls", "tls", "off"} or (parts.scheme == "smtps") != (tls == "tls"):
        raise ConfigError(f"{name}: tls must be starttls or off, or write smtps://; {_WRITE}")
    if tls == "off" and password:
        raise ConfigError(f"{name}: a password would travel in the open; leave out tls=off")
    try:
        sender = address_of(query.pop("from", user), "from")
    except InputError:
        raise ConfigError(f"{name}: from must be a mail address; {_WRITE}") from None
    if query:
        raise ConfigError(f"{name}: knows only from and tls after the question mark; {_WRITE}")
    default = {"starttls": 587, "tls": 465, "off": 25}[tls]
    return MailServer(host, port or default, tls, user, password, sender)


@dataclass
class MailSender:
    """Hands mails to a server; may be shared by threads.

    Attributes:
        total: seconds for the whole conversation.
        verify: the trusted authorities; the system's by default.
        timer: monotonic seconds.
    """

    server: MailServer
    timer: Callable[[], float]
    total: float = 60.0
    verify: ssl.SSLContext | None = field(default=None, repr=False)

    def send(self, mail: Mail) -> Answer:
        """Make one attempt; every ending is an ``Answer``.

        A mail whose conversation was cut may have arrived; its repeat has the same Message-ID.
        """
        start = self.timer()
        answer = self._attempt(mail.message)
        latency_ms = round((self.timer() - start) * 1000)
        return Answer(
            answer.status,
            answer.reason,
            answer.detail,
            latency_ms=latency_ms,
            permanent=answer.permanent,
        )

    def _attempt(self, message: EmailMessage) -> Answer:
        """Turn every ending into words; the server's own may repeat addresses, so only codes."""
        host = self.server.host
        try:
            refused = within(self.total, lambda: self._talk(message))
        except TimeoutError:
            return Answer(reason="timeout", detail=f"{host}: the mail server is too slow")
        except smtplib.SMTPAuthenticationError as error:
            why = f"{host}: refused user or password ({error.smtp_code})"
            return Answer(reason="mail", detail=f"{why}; check SPOTFLOOR_SMTP_URL")
        except smtplib.SMTPRecipientsRefused as error:
            codes = sorted({code for code, _ in error.recipients.values()})
            return Answer(
                reason="mail",
                detail=f"{host}: refused every receiver ({', '.join(map(str, codes))})",
                permanent=min(codes) >= 500,
            )
        except smtplib.SMTPResponseException as error:
            return Answer(
                reason="mail",
                detail=f"{host}: answered {error.smtp_code}",
                permanent=error.smtp_code >= 500,
            )
        except smtplib.SMTPNotSupportedError:
            return Answer(reason="mail", detail=f"{host}: does not offer STARTTLS or the login")
        except ssl.SSLError:
            return Answer(reason="tls", detail=f"{host}: no valid certificate")
        except (smtplib.SMTPException, OSError) as error:
            return Answer(reason="connection", detail=f"{host}: {type(error).__name__}")
        told = f"{refused} of the receivers were refused" if refused else ""
        return Answer(status=250, detail=told)

    def _talk(self, message: EmailMessage) -> int:
        """Hand the mail over; return how many of its receivers were refused."""
        server, context = self.server, self.verify or ssl.create_default_context()
        connection = (
            smtplib.SMTP_SSL(server.host, server.port, timeout=_STEP, context=context)
            if server.tls == "tls"
            else smtplib.SMTP(server.host, server.port, timeout=_STEP)
        )
        with connection:
            if server.tls == "starttls":
                connection.starttls(context=context)
            if server.user and server.password:
                connection.login(server.user, server.password)
            return len(connection.send_message(message))
