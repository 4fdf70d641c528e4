"""How long a rerun of the price explorer takes: ``python -m benchmarks.explorer_page``.

Fills a database with a made-up market, opens the page in Streamlit's own test runner, changes one
thing at a time, and prints the first and the median time of each kind of rerun. The runs after the
first find the counts of the filters in the cache, as all runs between two collections do; the
pages of offers they ask for are new. The exit code is 1 if a median is over ``--limit-ms``.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from streamlit.testing.v1 import AppTest

from benchmarks.filled import fill
from db.engine import make_engine

APP = Path(__file__).parents[1] / "dashboard" / "app.py"
PAGE = "app_pages/prices.py"


def questions(app: AppTest, number: int) -> dict[str, Callable[[], object]]:
    """What a person does next, in words; ``number`` makes each time a new one."""
    return {
        "nothing changed": lambda: app,
        "another price limit": lambda: app.number_input("ex_price").set_value(7.0 - number / 10),
        "another GPU": lambda: app.multiselect("ex_gpu").set_value(
            [app.multiselect("ex_gpu").options[number]]
        ),
        "another search": lambda: app.text_input("ex_q").set_value(f"spot r0{number}"),
        "another unit": lambda: app.segmented_control("ex_unit").set_value(
            ["GPU-hour", "instance-hour", "GiB VRAM-hour", "month"][number % 4]
        ),
        "another page of everything": lambda: app.selectbox("ex_rows").set_value(
            [50, 100, 250][number % 3]
        ),
    }


def measure(repeat: int, limit_ms: float) -> int:
    """Print one line per question; returns how many missed the limit."""
    app = AppTest.from_file(str(APP), default_timeout=300)
    app.switch_page(PAGE)
    start = time.perf_counter()
    app.run()
    sys.stdout.write(f"{'first run, cold process':<32} {_ms(start):8.1f} ms\n")
    missed = 0
    for words in questions(app, 0):
        times = []
        for number in range(repeat):
            questions(app, number)[words]()
            start = time.perf_counter()
            app.run()
            times.append(_ms(start))
            if app.exception:
                raise RuntimeError(str(app.exception[0].value))
        middle = statistics.median(times)
        missed += middle > limit_ms
        sys.stdout.write(
            f"{words:<32} {times[0]:8.1f} ms first, median {middle:8.1f} ms, worst"
            f" {max(times):8.1f} ms  {'LATE' if middle > limit_ms else 'ok'}\n"
        )
    return missed


def _ms(start: float) -> float:
    return 1000 * (time.perf_counter() - start)


def main() -> None:
    """Fill and ask."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--offers", type=int, default=100_000)
    parser.add_argument("--spans", type=int, default=300_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--limit-ms", type=float, default=300.0, help="for the median")
    parser.add_argument("--file", help="SQLite file to fill, or to use again")
    given = parser.parse_args()
    with TemporaryDirectory(prefix="explorer-page-") as name:
        file = Path(given.file or Path(name) / "explorer.db")
        url = f"sqlite:///{file}"
        if not file.exists():
            database = make_engine(url)
            fill(database, offers=given.offers, spans=given.spans)
            database.dispose()
        os.environ["SPOTFLOOR_DATABASE_URL"] = url
        sys.stdout.write(f"{given.offers:,} offers\n")
        missed = measure(given.repeat, given.limit_ms)
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
