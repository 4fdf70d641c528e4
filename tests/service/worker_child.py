"""A worker process for tests: the real ``perform`` over the real database, at given times.

``python -m tests.service.worker_child DATABASE_URL NAME many FOLDER`` works 40 slots of two jobs
and writes a line of FOLDER/NAME for each piece of work it does.
``... DATABASE_URL NAME hang FOLDER`` claims a slot, says ``here`` and waits to be killed.
"""

from __future__ import annotations

import sys
from datetime import timedelta
from pathlib import Path

from core.clock import FixedClock
from core.settings import Settings
from db.claims import sign_of_life
from db.engine import make_engine
from service.context import Context
from service.worker import Job, perform
from tests.builders import hour

SLOTS = 40
JOBS = ("scrape:a", "scrape:b")
EVERY, LEASE = timedelta(hours=1), timedelta(hours=6)


def main(url: str, name: str, what: str, folder: str) -> None:
    """Work, or hang in the work."""
    database = make_engine(url)

    def context(at: float) -> Context:
        made = Context(FixedClock(hour(at)))
        made.database = database
        made.settings = Settings.model_validate({"offline": True})
        return made

    sign_of_life(database, name, now=hour(0))
    if what == "hang":

        def hang() -> tuple[str, str]:
            sys.stdout.write("here\n")
            sys.stdout.flush()
            sys.stdin.read()  # nobody ever writes: the killer comes first
            raise AssertionError("was not killed")

        perform(context(0), Job("scrape:a", EVERY, LEASE, hang), name)
        return
    sys.stdout.write("here\n")
    sys.stdout.flush()
    sys.stdin.read(1)  # all start together
    with (Path(folder) / name).open("a") as done:
        for slot in range(SLOTS):
            sign_of_life(database, name, now=hour(slot))
            for job in JOBS:

                def work(line: str = f"{job} {slot}") -> tuple[str, str]:
                    done.write(line + "\n")
                    done.flush()
                    return "ok", name

                perform(context(slot), Job(job, EVERY, LEASE, work), name)


if __name__ == "__main__":
    main(*sys.argv[1:])
