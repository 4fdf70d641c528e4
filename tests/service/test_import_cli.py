"""``spotfloor prices import`` as a person types it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pricing.test_importers import HUNT, SKY, hunt_row, sky_row, table
from tests.service.inside import check, run


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{tmp_path / 'one.db'}")
    return tmp_path


def test_a_catalogue_is_imported_listed_and_traced(empty: Path) -> None:
    folder = empty / "aws"
    folder.mkdir()
    (folder / "vms.csv").write_bytes(table(SKY, sky_row(), sky_row(Price="0", SpotPrice="")))
    words = ("prices", "import", "--format", "skypilot", str(folder / "vms.csv"))
    found = check(run(*words, "--observed-at", "2026-11-01", "--json").document)
    (one,) = found["catalogues"]
    assert (one["provider"], one["offers"], one["rejected"]) == ("aws", 2, 1)
    assert one["rejections"][0]["reason"] == "zero_price"
    offers = run("prices", "list", "--origin", "import", "--json").document["offers"]
    assert {offer["purchase_option"] for offer in offers} == {"on_demand", "spot"}
    assert {offer["observed_at"] for offer in offers} == {"2026-11-01T00:00:00Z"}
    assert {offer["origin"] for offer in offers} == {"import"}


def test_a_dry_run_stores_nothing(empty: Path) -> None:
    (empty / "runpod.csv").write_bytes(table(HUNT, hunt_row()))
    ran = run("prices", "import", "--format", "gpuhunt", str(empty / "runpod.csv"), "--dry-run")
    assert ran.code == 0, ran.err
    assert "nothing was stored" in ran.err
    assert not (empty / "one.db").exists()


def test_one_bad_file_stores_none(empty: Path) -> None:
    (empty / "runpod.csv").write_bytes(table(HUNT, hunt_row()))
    (empty / "aws.csv").write_bytes(b"not,a,catalogue\n1,2,3\n")
    files = [str(empty / "runpod.csv"), str(empty / "aws.csv")]
    ran = run("prices", "import", "--format", "gpuhunt", *files)
    assert "aws.csv" in ran.error
    assert ran.code == 2
    assert not (empty / "one.db").exists()


def test_an_unknown_format_is_named(empty: Path) -> None:
    ran = run("prices", "import", "--format", "xls", "x.csv")
    assert "write skypilot or gpuhunt" in ran.error
