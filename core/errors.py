"""The error tree. Each message is one line that names what is wrong and how to mend it.

AppError                 exit code 1
├── ConfigError          6  a setting, an address or a file path is wrong
├── DatabaseError        6  the database cannot be reached or is not migrated
│   └── DatabaseAway     6  the connection was lost or refused; trying again may work
├── InputError           2  a value given by the user is wrong
├── DataError            4  stored data are missing or too old for the question
├── SourceError          5  a provider did not give a usable answer
└── PlanInfeasible       3  no fleet meets the request
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta


class AppError(Exception):
    """Base of every error that a user may see as one line.

    Attributes:
        exit_code: what the command line exits with.
    """

    exit_code = 1


class ConfigError(AppError):
    """A setting is unknown, malformed or points nowhere."""

    exit_code = 6


class DatabaseError(AppError):
    """The database cannot be reached, is locked, or its schema is not the one expected."""

    exit_code = 6


class DatabaseAway(DatabaseError):
    """The connection was lost or refused, or others were in the way: trying again may work.

    The transaction was rolled back whole, unless the connection was lost while it was committed:
    who tries again must look whether the work is there already.
    """


class InputError(AppError):
    """A value given by the user cannot be used; the message names field, value and mend."""

    exit_code = 2


class DataError(AppError):
    """There are no stored data, or none fresh enough, to answer."""

    exit_code = 4


class SourceError(AppError):
    """A provider's answer cannot be used as a price list.

    Args:
        message: one line for people.
        reason: a short machine word such as ``http_429``, ``timeout``, ``block_page``.
        status: HTTP status when there was one.
        retry_after: how long the source asked us to wait.
    """

    exit_code = 5

    def __init__(
        self,
        message: str,
        *,
        reason: str,
        status: int | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        super().__init__(message)
        self.reason = reason
        self.status = status
        self.retry_after = retry_after


class PlanInfeasible(AppError):
    """No fleet meets the request.

    Args:
        message: one line with the binding limit.
        limits: every limit that binds, in words.
        relaxations: what each relaxation would give, in words.
    """

    exit_code = 3

    def __init__(
        self, message: str, *, limits: Sequence[str] = (), relaxations: Sequence[str] = ()
    ) -> None:
        super().__init__(message)
        self.limits = tuple(limits)
        self.relaxations = tuple(relaxations)
