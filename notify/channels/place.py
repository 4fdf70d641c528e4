"""What a renderer knows about the endpoint."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Place:
    """Where a message goes.

    Attributes:
        target: the endpoint's address, unsealed.
        name: the endpoint's name.
        allow_private: private networks are allowed, by the administrator and the endpoint.
        mail_from: sender of mails.
    """

    target: str = field(repr=False)
    name: str = ""
    allow_private: bool = False
    mail_from: str = ""
