"""A collection run that stops at a given point and waits there to be killed.

``python -m tests.pricing.killed_run DATABASE_URL parse|write`` prints ``here`` when it got there.
"""

from __future__ import annotations

import sys
import unittest.mock
from typing import Any

from core.clock import FixedClock
from core.market import Parsed
from db.engine import make_engine
from db.observations import write_observations
from pricing.collect import collect, given
from tests.builders import a_payload, a_provider, an_offer, hour


def _wait(*_: Any) -> Any:
    sys.stdout.write("here\n")
    sys.stdout.flush()
    sys.stdin.read()  # nobody ever writes: the killer comes first
    raise AssertionError("was not killed")


def main(url: str, where: str) -> None:
    """Run against a database whose tables are there."""
    offers = [
        an_offer(instance_type=f"m{number}", usd_per_hour="3", observed_at=hour(1))
        for number in range(50)
    ]
    provider = a_provider(_wait if where == "parse" else lambda _: Parsed(offers=offers))
    # The last step of the transaction: run row, offers and spans are written by then.
    stop = _wait if where == "write" else write_observations
    with unittest.mock.patch("db.ingest.write_observations", stop):
        collect(
            make_engine(url),
            provider,
            lambda _: given([a_payload(at=hour(1))]),
            FixedClock(hour(1)),
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
