"""Sending whatever a channel rendered, by the way out that fits."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from core.errors import ConfigError
from core.settings import Settings
from notify.channels import apprise
from notify.mail import MailSender, MailServer, read_server
from notify.outgoing import Answer, AppriseNote, HttpRequest, Outgoing
from notify.transport import HttpSender

Send = Callable[[Outgoing], Answer]


@dataclass
class Sender:
    """Sends over the network; may be shared by threads."""

    http: HttpSender
    mail: MailSender | None

    def __call__(self, outgoing: Outgoing) -> Answer:
        """Make one attempt.

        Raises:
            ConfigError: the way out is not set up.
        """
        if isinstance(outgoing, HttpRequest):
            return self.http.send(outgoing)
        if isinstance(outgoing, AppriseNote):
            return apprise.send(outgoing)
        if self.mail is None:
            raise ConfigError(NO_SERVER)
        return self.mail.send(outgoing)


NO_SERVER = (
    "channel email: there is no mail server; set SPOTFLOOR_SMTP_URL, e.g."
    " smtp://user:password@host:587?from=alerts@example.com"
)


def mail_server(settings: Settings) -> MailServer | None:
    """Return the mail server that the settings name, or None.

    Raises:
        ConfigError: the setting is malformed.
    """
    return read_server(settings.smtp_url.get_secret_value()) if settings.smtp_url else None


def make_sender(settings: Settings) -> Sender:
    """Return the sender of a real process.

    Raises:
        ConfigError: the mail server's address is malformed.
    """
    server = mail_server(settings)
    return Sender(
        HttpSender(timer=time.monotonic),
        MailSender(server, time.monotonic) if server else None,
    )
