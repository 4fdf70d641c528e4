"""Who follows docs/adding-a-provider.md gets a provider that works and code as ours is."""

from __future__ import annotations

import csv
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from tests.house.checkout import SCRIPTS
from tests.service.inside import check, run
from tests.service.walk_through import follow
from tests.shared import ROOT


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPOTFLOOR_DATABASE_URL", f"sqlite:///{tmp_path / 'own.db'}")
    follow(tmp_path, monkeypatch)
    return tmp_path


def test_the_provider_gives_the_offers_written_down_by_hand_and_says_why_of_the_rest(
    folder: Path,
) -> None:
    with (folder / "samples/acme/expected_offers.csv").open(newline="") as lines:
        expected = list(csv.DictReader(lines))
    file = folder / "samples/acme/machines.json"
    parsed = check(run("scrape", "parse", "-p", "acme", str(file), "--json").document)
    assert len(expected) == len(parsed["offers"]) == 3
    assert Counter(row["reason"] for row in parsed["rejected"]) == {
        "commitment": 1, "unknown_gpu": 1, "zero_price": 1,
    }  # fmt: skip

    ran = run("scrape", "run", "-p", "acme", "--from", str(folder / "samples"), "--json")
    (told,) = check(ran.document)["runs"]
    assert (told["state"], told["offers"]) == ("ok", 3)
    listed = run("prices", "list", "-p", "acme", "--json").document["offers"]
    names = [name for name in expected[0] if name not in {"source_file", "gpu_id"}]
    found = {(offer["gpu"], *(str(offer[name]) for name in names)) for offer in listed}
    assert found == {(row["gpu_id"], *(row[name] for name in names)) for row in expected}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html><title>Just a moment...</title>", "block_page"),
        (b'{"machines": [{"na', "truncated"),
    ],
)
def test_what_is_no_price_list_gives_no_offer_and_says_why(
    folder: Path, body: bytes, reason: str
) -> None:
    file = folder / "samples/acme/machines.json"
    file.write_bytes(body)
    ran = run("scrape", "run", "-p", "acme", "--from", str(folder / "samples"))
    assert ran.code == 5
    assert reason in ran.out + ran.err


def test_the_code_of_the_page_is_as_ours_is(folder: Path) -> None:
    file = folder / "pricing/providers/acme.py"
    for words in (("check",), ("format", "--check")):
        answer = subprocess.run(
            [SCRIPTS / "ruff", *words, "--config", str(ROOT / "pyproject.toml"), str(file)],
            capture_output=True,
            text=True,
        )
        assert answer.returncode == 0, answer.stdout
