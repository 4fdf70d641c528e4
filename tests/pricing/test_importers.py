"""Catalogues of other tools: their traps, and that a bad one stores nothing."""

from __future__ import annotations

import csv
import io
import json
import zipfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.clock import FixedClock
from core.errors import InputError
from core.market import Offer, Parsed
from db.engine import Database, reading
from db.offers import current_offers
from db.records import OfferFilter
from pricing.importers import gpuhunt, skypilot
from pricing.importers.load import read_catalogues, store
from pricing.importers.machines import machine_of, provider_of
from tests.builders import hour, look
from tests.pricing.acceptance import made, reasons
from tests.shared import shared

AT = datetime(2026, 11, 1, tzinfo=UTC)
SKY = ["InstanceType", "AcceleratorName", "AcceleratorCount", "vCPUs", "MemoryGiB", "GpuInfo",
       "Price", "SpotPrice", "Region", "AvailabilityZone"]  # fmt: skip
HUNT = ["instance_name", "location", "price", "cpu", "memory", "gpu_count", "gpu_name",
        "gpu_memory", "spot", "disk_size"]  # fmt: skip


def info(name: str, count: int, mib: int, total: int | None = None) -> str:
    return str(
        {
            "Gpus": [{"Name": name, "Manufacturer": "NVIDIA", "Count": float(count),
                      "MemoryInfo": {"SizeInMiB": mib}}],
            "TotalGpuMemoryInMiB": mib * count if total is None else total,
        }
    )  # fmt: skip


def sky_row(**changes: str) -> dict[str, str]:
    values = {
        "InstanceType": "p4de.24xlarge", "AcceleratorName": "A100-80GB", "AcceleratorCount": "8.0",
        "vCPUs": "96.0", "MemoryGiB": "1152.0", "GpuInfo": info("A100", 8, 81920),
        "Price": "27.44705", "SpotPrice": "12.5", "Region": "us-east-1",
        "AvailabilityZone": "use1-az1",
    }  # fmt: skip
    return {**values, **changes}


def hunt_row(**changes: str) -> dict[str, str]:
    values = {
        "instance_name": "H100_SXM", "location": "CA-MTL-1", "price": "2.69", "cpu": "20",
        "memory": "125", "gpu_count": "1", "gpu_name": "H100", "gpu_memory": "80.0",
        "spot": "False", "disk_size": "",
    }  # fmt: skip
    return {**values, **changes}


def table(columns: list[str], *rows: dict[str, str]) -> bytes:
    text = io.StringIO()
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def sky(*rows: dict[str, str], provider: str = "aws") -> Parsed:
    return skypilot.parse(made(table(SKY, *rows), "vms.csv"), provider)


def hunt(*rows: dict[str, str], provider: str = "runpod") -> Parsed:
    return gpuhunt.parse(made(table(HUNT, *rows), f"{provider}.csv"), provider)


def prices(parsed: Parsed) -> dict[tuple[str, str], Decimal]:
    return {(o.purchase_option.value, o.zone): o.usd_per_hour for o in parsed.offers}


# --- SkyPilot ----------------------------------------------------------------------------------


def test_the_on_demand_price_repeats_for_zones_and_spot_is_the_zones_own() -> None:
    parsed = sky(sky_row(), sky_row(AvailabilityZone="use1-az2", SpotPrice="9.75"))
    assert prices(parsed) == {
        ("on_demand", ""): Decimal("27.44705"),
        ("spot", "use1-az1"): Decimal("12.5"),
        ("spot", "use1-az2"): Decimal("9.75"),
    }
    assert reasons(parsed) == {"duplicate": 1}
    assert {(o.gpu, o.gpu_count, o.vram_gib) for o in parsed.offers} == {
        ("a100-80gb-sxm", Decimal(8), Decimal(80)),
    }  # fmt: skip


@pytest.mark.shared
def test_b03_name_count_and_memory_must_agree() -> None:
    case = json.loads(shared("cases", "b03_catalog_rows.json").read_text("utf-8"))
    eight = case["lambda_style"]["data"]["gpu_8x_a100_80gb_sxm4"]["instance_type"]
    right = sky_row(
        InstanceType=eight["name"], Price=str(eight["price_cents_per_hour"] / 100), SpotPrice="",
        GpuInfo=info("A100", 8, 81920, 655_360),
    )  # fmt: skip
    (offer,) = sky(right, provider="lambda").offers
    assert (offer.usd_per_gpu_hour, offer.vram_gib, offer.gpu) == (
        Decimal("1.5"), Decimal(80), "a100-80gb-sxm",
    )  # fmt: skip
    one_card = sky_row(InstanceType=eight["name"], GpuInfo=info("A100", 8, 81920, 81_920))
    assert reasons(sky(one_card, provider="lambda")) == {"vram_mismatch": 1}
    azure = case["azure_style"]
    twelve = sky_row(
        InstanceType=azure["armSkuName"], AcceleratorName="H100", AcceleratorCount="12",
        Price=str(azure["on_demand_usd_hour"]), SpotPrice=str(azure["spot_usd_hour"]),
        GpuInfo="", Region=azure["armRegionName"], AvailabilityZone="",
    )  # fmt: skip
    assert reasons(sky(twelve, provider="azure")) == {"count_mismatch": 1}
    found = sky({**twelve, "AcceleratorCount": "8"}, provider="azure").offers
    per_gpu = {o.purchase_option.value: round(o.usd_per_gpu_hour, 3) for o in found}
    assert per_gpu == {"on_demand": Decimal("14.748"), "spot": Decimal("3.687")}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"AcceleratorName": ""}, "not_gpu"),
        ({"InstanceType": ""}, "part"),
        ({"Price": "", "SpotPrice": ""}, "no_price"),
        ({"Price": "0.0", "SpotPrice": ""}, "zero_price"),
        ({"Price": "-1", "SpotPrice": ""}, "implausible_price"),
        ({"Price": "nan", "SpotPrice": ""}, "bad_value"),
        ({"InstanceType": "p99.48xlarge"}, "unknown_gpu"),
        ({"AcceleratorName": "H100"}, "name_mismatch"),
        ({"AcceleratorCount": "0"}, "bad_value"),
    ],
)
def test_rows_that_are_no_offer_say_why(changes: dict[str, str], reason: str) -> None:
    parsed = sky(sky_row(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


def test_a_card_of_open_form_is_not_guessed() -> None:
    row = sky_row(InstanceType="x1", AcceleratorName="H100", AcceleratorCount="1", GpuInfo="")
    assert sky(row, provider="cloudz").offers == []
    (offer, _) = sky({**row, "InstanceType": "1x_H100_SXM5"}, provider="cloudz").offers
    assert offer.gpu == "h100-sxm"


# --- gpuhunt -----------------------------------------------------------------------------------


def test_each_row_is_one_offer_with_its_purchase_option() -> None:
    parsed = hunt(hunt_row(), hunt_row(spot="True", price="1.10"))
    assert prices(parsed) == {
        ("on_demand", ""): Decimal("2.69"), ("spot", ""): Decimal("1.10"),
    }  # fmt: skip


def test_a_machines_memory_is_not_the_cards() -> None:
    (offer,) = hunt(hunt_row(gpu_count="8", gpu_memory="640", price="21.52")).offers
    assert (offer.gpu, offer.vram_gib, offer.usd_per_gpu_hour) == (
        "h100-sxm", Decimal(80), Decimal("2.69"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu_count": "0"}, "not_gpu"),
        ({"spot": "maybe"}, "bad_value"),
        ({"price": ""}, "no_price"),
        ({"price": "0"}, "zero_price"),
        ({"gpu_name": "Z900", "instance_name": "z900.1"}, "unknown_gpu"),
        ({"gpu_memory": "24"}, "vram_mismatch"),
        ({"instance_name": ""}, "missing_field"),
    ],
)
def test_rows_of_gpuhunt_that_are_no_offer_say_why(changes: dict[str, str], reason: str) -> None:
    parsed = hunt(hunt_row(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


# --- any input ---------------------------------------------------------------------------------


@given(body=st.binary(max_size=300))
@pytest.mark.parametrize("parse", [skypilot.parse, gpuhunt.parse], ids=["skypilot", "gpuhunt"])
def test_any_bytes_are_answered_without_an_offer(parse: Any, body: bytes) -> None:
    parsed = parse(made(body, "x.csv"), "aws")
    assert parsed.offers == []
    assert parsed.failures or parsed.rejected


@given(value=st.text(max_size=40), column=st.sampled_from(SKY))
def test_any_text_in_any_cell_is_a_rejection_at_most(value: str, column: str) -> None:
    parsed = sky(sky_row(**{column: value}))
    offers: list[Offer] = parsed.offers
    assert all(offer.usd_per_hour > 0 for offer in offers)


@pytest.mark.parametrize(
    ("name", "ours"),
    [("lambdalabs", "lambda"), ("vast", "vastai"), ("datacrunch", "verda"), ("AWS", "aws")],
)
def test_names_of_other_tools_are_ours(name: str, ours: str) -> None:
    assert provider_of(name) == ours


def test_shape_tables_of_the_large_clouds_decide() -> None:
    machine = machine_of("gcp", "a2-ultragpu-8g", "A100-80GB", Decimal(8), None)
    assert machine.gpu == "a100-80gb-sxm"


# --- storing -----------------------------------------------------------------------------------


def catalogue(folder: Path) -> Path:
    path = folder / "catalog.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("v1/runpod.csv", table(HUNT, hunt_row(), hunt_row(gpu_count="0")))
        archive.writestr(
            "v1/lambdalabs.csv", table(HUNT, hunt_row(instance_name="gpu_1x_h100_sxm5"))
        )
        archive.writestr("v1/version", "20261101")
    return path


def test_a_zip_is_stored_beside_live_prices_and_twice_is_once(
    database: Database, tmp_path: Path
) -> None:
    look(database, hour(0), {"a": "2"})
    found = read_catalogues([catalogue(tmp_path)], "gpuhunt", None, AT)
    first = store(database, found, FixedClock(hour(1)))
    assert {s.provider: (s.offers, s.rejected, s.opened) for s in first} == {
        "runpod": (1, 1, 1), "lambda": (1, 0, 1),
    }  # fmt: skip
    again = store(database, found, FixedClock(hour(2)))
    assert [(s.opened, s.kept) for s in again] == [(0, 1), (0, 1)]
    with reading(database) as session:
        live = current_offers(session, hour(1), OfferFilter(origin="live"))
        imported = current_offers(session, hour(1), OfferFilter(origin="import"))
    assert [offer.provider for offer in live] == ["acme"]
    assert {offer.observed_at for offer in imported} == {AT}
    assert {offer.provider for offer in imported} == {"runpod", "lambda"}


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("aws.csv", b"", "columns are missing"),
        ("aws.csv", b"a,b\n1,2\n", "columns are missing: AcceleratorCount"),
        ("aws.csv", ",".join(SKY).encode() + b"\n", "a header and no row"),
        ("aws.zip", b"PK\x05\x06" + b"\0" * 18, "holds no CSV"),
        ("!!.csv", b"x", "whose prices are these"),
    ],
)
def test_a_file_that_is_no_catalogue_is_one_line(
    tmp_path: Path, name: str, content: bytes, said: str
) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(InputError, match=said):
        read_catalogues([path], "skypilot", None, AT)


def test_a_missing_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read: No such file"):
        read_catalogues([tmp_path / "aws.csv"], "skypilot", None, AT)
