"""A price in euro, from recorded payloads to the listing, by the commands a person types."""

from __future__ import annotations

import json
import shutil
from decimal import Decimal
from pathlib import Path

import pytest

from tests.running import document, environment, spotfloor
from tests.shared import payloads, shared

AT = "2026-10-29T08:00:00Z"


@pytest.mark.shared
def test_a_recorded_run_converts_by_the_shared_rate_and_a_second_writes_no_span(
    tmp_path: Path,
) -> None:
    variables = environment(f"sqlite:///{tmp_path / 'one.db'}")
    command = ("scrape", "run", "--from", str(shared("payloads")), "--provider", "scaleway")
    first = document(spotfloor(*command, "--observed-at", AT, "--json", variables=variables))
    second = document(spotfloor(*command, "--observed-at", AT, "--json", variables=variables))
    (before,), (after,) = first["runs"], second["runs"]
    assert (before["state"], before["spans_opened"]) == ("ok", 7)
    assert (after["spans_opened"], after["spans_closed"], after["spans_kept"]) == (0, 0, 7)

    offers = document(spotfloor("prices", "list", "--json", variables=variables))["offers"]
    found = {offer["instance_type"]: offer for offer in offers}
    one = found["H100-SXM-8-80G"]
    assert (one["currency"], Decimal(one["native_price_per_hour"])) == ("EUR", Decimal("23.028"))
    assert Decimal(one["usd_per_hour"]) == Decimal("23.028") * Decimal("1.1133")
    assert one["note"] == "23.028 EUR at 1.1133 USD, reference rate of 2026-10-28"


@pytest.mark.shared
def test_a_run_without_a_rate_fails_and_the_prices_of_the_last_one_stay(tmp_path: Path) -> None:
    folder = tmp_path / "archive"
    shutil.copytree(payloads("scaleway"), folder / "scaleway")
    (folder / "common").mkdir()
    rate = folder / "common" / "fx_eur_usd.json"
    variables = environment(f"sqlite:///{tmp_path / 'one.db'}")
    command = ("scrape", "run", "--from", str(folder), "--observed-at", AT, "--json")

    row = {"as_of": "2026-10-28", "base": "EUR", "quote": "USD", "rate": 1.25}
    rate.write_text(json.dumps(row), "utf-8")
    document(spotfloor(*command, variables=variables))
    for reason, body in (
        ("no_fx_rate", None),
        ("stale_fx_rate", json.dumps(row | {"as_of": "2026-01-02"})),
        ("implausible_rate", json.dumps(row | {"rate": 12.5})),
    ):
        rate.unlink(missing_ok=True)
        if body is not None:
            rate.write_text(body, "utf-8")
        (run,) = document(spotfloor(*command, variables=variables), code=5)["runs"]
        assert (run["state"], run["reason"], run["spans_closed"]) == ("failed", reason, 0)
    offers = document(spotfloor("prices", "list", "--json", variables=variables))["offers"]
    assert {Decimal(o["usd_per_hour"]) / Decimal(o["native_price_per_hour"]) for o in offers} == {
        Decimal("1.25")
    }
    assert len(offers) == 7


@pytest.mark.shared
def test_parsing_one_file_finds_the_rate_beside_it(tmp_path: Path) -> None:
    variables = environment(f"sqlite:///{tmp_path / 'one.db'}")
    folder = payloads("scaleway")
    command = ("scrape", "parse", "-p", "scaleway", "products_servers_fr-par-2.json")
    for where in (folder, folder / ".."):
        name = command[-1] if where == folder else f"scaleway/{command[-1]}"
        words = (*command[:-1], name, "--observed-at", AT, "--json")
        parsed = document(spotfloor(*words, variables=variables, cwd=where))
        assert len(parsed["offers"]) == 7
        assert parsed["files"] == ["products_servers_fr-par-2.json"]
