"""What each page takes for granted when it says "type this": files, names, a run in doubt."""

from __future__ import annotations

import gzip
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from db.engine import make_engine
from db.migrate import upgrade
from tests.builders import look
from tests.conftest import NOW
from tests.pricing.test_importers import HUNT, SKY, hunt_row, sky_row, table
from tests.service.inside import run
from tests.service.test_accept import make_doubted
from tests.service.test_advise_cli import CONFIG
from tests.service.test_replay_command import INDEX, RUNS
from tests.service.walk_through import follow


@dataclass
class Place:
    """Where a reader types the lines of one page.

    Attributes:
        folder: the working folder.
        instead: what the reader puts in the place of a page's example or ellipsis.
    """

    folder: Path
    monkeypatch: pytest.MonkeyPatch
    instead: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def own_database(self) -> None:
        """A few looks instead of the bundled prices, where every row costs time."""
        url = f"sqlite:///{self.folder / 'own.db'}"
        engine = make_engine(url)
        upgrade(engine)
        look(engine, NOW, {"a": "2.00", "b": "3.00"})
        engine.dispose()
        self.monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", url)

    def file(self, name: str, content: bytes) -> None:
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def adding_a_provider(place: Place) -> None:
    follow(place.folder, place.monkeypatch)


def advisor(place: Place) -> None:
    place.file("config.json", json.dumps(CONFIG).encode())
    rows = "".join(f"2026-12-01T00:00:{n:02},{1000 + n},{200 + n}\n" for n in range(20))
    head = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
    place.file("requests.csv.gz", gzip.compress((head + rows).encode()))


def digest(place: Place) -> None:
    assert run("endpoints", "add", "team", "https://hooks.example.com/team").code == 0


def operations(place: Place) -> None:
    place.own_database()
    place.instead["postgresql://…"] = (f"sqlite:///{place.folder / 'other.db'}",)


def planning(place: Place) -> None:
    assert run("plan", "solve", "--example", "--save").code == 0
    rows = "".join(f"{hour},{4 + hour % 12}\n" for hour in range(24))
    place.file("requests.csv", f"hour,rps\n{rows}".encode())


def replay(place: Place) -> None:
    place.file("traces/spot_traces_index.csv", INDEX.encode())
    place.file("traces/spot_traces_rle.csv", RUNS.encode())
    rates = "workload,t_start_s,window_s,req_per_s\na,0,600,2\na,600,600,6\n"
    place.file("rates.csv", rates.encode())
    place.instead |= {"FOLDER": ("traces",), "FILE": ("rates.csv",)}


def prices(place: Place) -> None:
    place.instead["4711"] = (str(make_doubted(place.folder)),)
    place.instead["…"] = (
        "-p", "aws", "--instance-type", "p5.48xlarge", "-r", "us-east-1", "--zone", "use1-az1",
        "--node", "node-1",
    )  # fmt: skip
    head = "provider,instance_type,region,event,at,node\n"
    row = "aws,g6.xlarge,us-east-1,started,2026-12-01T00:00:00Z,node-2\n"
    place.file("events.csv", (head + row).encode())
    place.file("catalogs/v8/aws/vms.csv", table(SKY, sky_row()))
    with zipfile.ZipFile(place.folder / "catalog.zip", "w") as archive:
        archive.writestr("runpod.csv", table(HUNT, hunt_row()))


PREPARE: dict[str, Callable[[Place], None]] = {
    "adding-a-provider.md": adding_a_provider,
    "advisor.md": advisor,
    "digest.md": digest,
    "operations.md": operations,
    "planning.md": planning,
    "prices.md": prices,
    "replay.md": replay,
}
