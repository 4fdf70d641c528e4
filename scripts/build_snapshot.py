"""Write the bundled price snapshot from the folder of collected data.

Run from the repository's root: ``python -m scripts.build_snapshot FOLDER [TARGET]``. The same
folder gives the same bytes. ``FOLDER`` holds ``data/price_points.csv``,
``data/price_history.csv.gz``, ``data/egress_hyperscalers.csv`` and ``data/egress_neoclouds.csv``.
Decisions on names and omissions are in ``scripts.snapshot_tables``; what the snapshot holds and
under which licences is in ``docs/data-sources.md``.
"""

from __future__ import annotations

import csv
import gzip
import io
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

from core.gpus import gpu as card_of
from core.money import plain
from pricing.snapshot import OFFER_COLUMNS
from scripts import snapshot_tables as tables
from scripts.snapshot_egress import write_egress

EARLIEST = "2025-06-01"
"""Older prices describe another market: AWS cut its H100 by 44 % in June 2025."""

DATASET_FIRST_DAY = "2026-07-06"
"""The dataset's first snapshot (2026-07-05) put several cards under one name: its RunPod H200 was
the price of the H200 NVL, its Lambda A100 that of the 40 GB card."""
DATASET_LAST_DAY = "2026-08-22"
DATASET = "adriannutiu/gpu-rental-prices:"
DATASET_NOTE = "lowest listing of the day; a change may be another SKU"
CALCULATOR = "Cyclenerd/google-cloud-pricing-cost-calculator@"


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """Identity of an offer over time, as in ``core.market.OfferKey``."""

    provider: str
    tier: str
    region: str
    zone: str
    instance_type: str
    gpu: str
    gpu_count: int
    purchase_option: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One price at one time.

    Attributes:
        usd: USD per hour of the whole instance.
        as_of: ISO date or instant, UTC.
        rank: 0 = a stated price, 1 = a median, 2 = an average, 3 = an end of a range, "from".
    """

    key: Key
    usd: Decimal
    as_of: str
    source: str
    note: str = ""
    vcpu: int | None = None
    ram_gib: int | None = None
    availability: str = ""
    rank: int = 0


def main(arguments: list[str]) -> int:
    """Write ``offers.csv`` and ``egress.csv``; return the exit code."""
    if len(arguments) not in (1, 2):
        sys.stderr.write("usage: python -m scripts.build_snapshot FOLDER [TARGET]\n")
        return 2
    target = Path(arguments[1]) if len(arguments) == 2 else Path("pricing/snapshot")
    build(Path(arguments[0]), target)
    return 0


def build(folder: Path, target: Path) -> None:
    """Write both tables of the snapshot into ``target``.

    Raises:
        OSError: an input file is missing or ``target`` cannot be written.
        ValueError: an input row cannot be read, or two sources contradict each other.
    """
    data = folder / "data"
    history = data / "price_history.csv.gz"
    points = [
        *list_prices(),
        *aws_spot(),
        *price_points(data / "price_points.csv"),
        *dataset(history),
        *google(history),
    ]
    (target / "offers.csv").write_text(write_offers(points), "utf-8", newline="\n")
    files = (data / "egress_hyperscalers.csv", data / "egress_neoclouds.csv")
    newest = max(point.as_of for point in points)[:10]
    (target / "egress.csv").write_text(write_egress(files, undated=newest), "utf-8", newline="\n")


def write_offers(points: Iterable[Point]) -> str:
    """Return the table of offers: of each series the changes and the last observation."""
    series: dict[Key, list[Point]] = defaultdict(list)
    for point in points:
        series[point.key].append(point)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(OFFER_COLUMNS)
    for key in sorted(series):
        for point in changes(series[key]):
            writer.writerow(_columns(point))
    return out.getvalue()


def changes(points: Iterable[Point]) -> Iterator[Point]:
    """Yield the first point of each price and the last point of the series, in time order.

    Raises:
        ValueError: two different prices at one time.
    """
    ordered = sorted(points, key=lambda point: point.as_of)
    for number, point in enumerate(ordered):
        previous = ordered[number - 1] if number else None
        if previous and previous.as_of == point.as_of:
            if previous.usd != point.usd:
                raise ValueError(f"two prices at {point.as_of} for {point.key}")
            continue
        if previous is None or previous.usd != point.usd or number == len(ordered) - 1:
            yield point


def list_prices() -> Iterator[Point]:
    """Yield the list prices that were read one by one."""
    for row in tables.LIST_PRICES:
        yield Point(
            key=Key(
                row.provider, "secure", row.region, row.zone, row.instance_type, row.gpu,
                row.gpu_count, row.purchase_option,
            ),
            usd=Decimal(row.usd_per_hour),
            as_of=row.as_of,
            source=row.source,
            note=row.note,
            vcpu=row.vcpu,
            ram_gib=row.ram_gib,
        )  # fmt: skip


def aws_spot() -> Iterator[Point]:
    """Yield AWS spot prices by zone, with the on-demand price of the same day and region."""
    for row in tables.AWS_SPOT:
        prices = [("", "on_demand", row.on_demand)] if row.on_demand else []
        prices += [(f"{row.zone_prefix}{n}", "spot", usd) for n, usd in row.spot.items()]
        for zone, option, usd in prices:
            dear = option == "spot" and row.on_demand and Decimal(usd) >= Decimal(row.on_demand)
            yield Point(
                key=Key(
                    "aws", "secure", row.region, zone, row.instance_type, row.gpu, row.gpu_count,
                    option,
                ),
                usd=Decimal(usd),
                as_of=tables.AWS_SPOT_AS_OF,
                source=tables.AWS_SPOT_SOURCE,
                note=tables.AWS_SPOT_NOTE + ("; not below on-demand: no saving" if dear else ""),
                vcpu=row.vcpu,
                ram_gib=row.ram_gib,
            )  # fmt: skip


def price_points(path: Path) -> Iterator[Point]:
    """Yield the newest single price of each offer from the table of price points.

    A median, an average or an end of a range comes in only where no stated price of the same
    provider, card and purchase option exists.
    """
    candidates = [p for row in _rows(path) if (p := _price_point(row)) is not None]
    best: dict[tuple[str, str, str], int] = {}
    for point in candidates:
        market = (point.key.provider, point.key.gpu, point.key.purchase_option)
        best[market] = min(point.rank, best.get(market, point.rank))
    newest: dict[Key, Point] = {}
    for point in candidates:
        key = point.key
        if point.rank > best[key.provider, key.gpu, key.purchase_option]:
            continue
        if key not in newest or newest[key].as_of < point.as_of:
            newest[key] = point
    yield from newest.values()


def _price_point(row: dict[str, str]) -> Point | None:
    source, provider, as_of = row["source"], row["provider"], row["as_of"]
    if as_of < EARLIEST:  # an empty date too
        return None
    if any(p == provider and words in source for p, words in tables.POINT_LEFT_OUT):
        return None
    ranks = (("(median", 1), ("(average", 2), ("(high end", 3), ("'from' price", 3))
    rank = next((r for words, r in ranks if words in source), 0)
    if rank == 2 and provider != "vastai":
        return None  # all others have stated prices, from here or from the daily dataset
    text = row["region"] or "*"
    default = ("community" if provider == "vastai" else "secure", text, "")
    tier, region, suffix = tables.POINT_REGIONS.get((provider, text), default)
    variant = next((v for words, v in tables.POINT_VARIANTS.items() if words in source), "")
    count = int(row["gpu_count"])
    return Point(
        key=Key(
            provider, tier, region, "", machine_name(count, row["gpu"]) + variant + suffix,
            row["gpu"], count, row["purchase"],
        ),
        usd=_money(row["usd_per_gpu_hour"]) * count,
        as_of=as_of,
        source=_citation(source),
        note=next((n for words, n in tables.POINT_NOTES.items() if words in source), ""),
        availability="sold_out" if "(unavailable then)" in source else "",
        rank=rank,
    )  # fmt: skip


def dataset(path: Path) -> Iterator[Point]:
    """Yield every kept daily price of gpurentalprices.com (CC BY 4.0)."""
    kept: dict[Key, list[Point]] = defaultdict(list)
    for row in _rows(path):
        if row["source"].startswith(DATASET) and (point := _dataset_point(row)) is not None:
            kept[point.key].append(point)
    for points in kept.values():
        # A series that the last snapshot no longer shows has ended: it is no current price.
        if max(point.as_of for point in points)[:10] == DATASET_LAST_DAY:
            yield from points


def _dataset_point(row: dict[str, str]) -> Point | None:
    name, kind, gpu, day = (
        row["provider"], row["instance_type"], row["gpu"], row["observed_at"][:10],
    )  # fmt: skip
    count = int(row["gpu_count"])
    if name in tables.LEFT_OUT_PROVIDERS or (name, kind, gpu) in tables.LEFT_OUT_SERIES:
        return None
    if name == "aws" and (kind, gpu, count) not in tables.AWS_KEPT:
        return None
    if day < max(DATASET_FIRST_DAY, tables.FIRST_DAY_OF_SERIES.get((name, gpu), "")):
        return None
    card = tables.CARDS_OF_PROVIDER.get((name, gpu)) or tables.CARDS.get(gpu)
    if card is None:
        return None
    usd = _money(row["usd_per_hour"])
    if (name, gpu) in tables.SOLD_BY_EIGHT:
        usd, count = usd * 8 / count, 8
    suffix = tables.VARIANTS.get((name, gpu), "")
    machine, region = tables.MACHINES.get((name, gpu, count), ("", "*"))
    provider = tables.PROVIDER_NAMES.get(name, name)
    return Point(
        key=Key(
            provider,
            "community" if row["purchase_option"] == "community" else "secure",
            tables.REGIONS_OF_CARDS.get((provider, card), region),
            "",
            machine or machine_name(count, card) + suffix,
            card,
            count,
            _option(name, row["purchase_option"]),
        ),
        usd=usd,
        as_of=row["observed_at"],
        source=f"dataset gpurentalprices.com {day}",
        note=tables.SERIES_NOTES.get(name, DATASET_NOTE),
    )


def _option(provider: str, option: str) -> str:
    """Map the dataset's purchase options to ours.

    Salad's machines are private PCs and Modal's functions are preempted by default: both are spot.
    """
    if provider in {"salad", "modal"} or option == "spot":
        return "spot"
    if option in {"on_demand", "community"}:
        return "on_demand"
    raise ValueError(f"unknown purchase option {option!r} of {provider}")


def google(path: Path) -> Iterator[Point]:
    """Yield Google Cloud's machine prices (Cyclenerd, Apache-2.0) per zone that has the machine.

    History only for a few machines in a few regions; elsewhere the last observation.
    """
    rows = [row for row in _rows(path) if row["source"].startswith(CALCULATOR)]
    last = max(row["observed_at"] for row in rows)
    for row in rows:
        name, region, at = row["instance_type"], row["region"], row["observed_at"]
        machine = tables.GCP_MACHINES.get(name)
        historic = (
            region in tables.GCP_HISTORY_REGIONS
            and name in tables.GCP_HISTORY_MACHINES
            and at >= tables.GCP_HISTORY_FROM
        )
        if machine is None or not (historic or at == last):
            continue
        if row["purchase_option"] == "on_demand" and name in tables.GCP_SPOT_ONLY:
            continue
        for zone in google_zones(name, region):
            yield Point(
                key=Key(
                    "gcp", "secure", region, zone, name, machine.gpu, machine.gpu_count,
                    row["purchase_option"],
                ),
                usd=_money(row["usd_per_hour"]),
                as_of=at,
                source=f"Cyclenerd pricing.yml@{row['source'].removeprefix(CALCULATOR)[:7]}",
                vcpu=machine.vcpu,
                ram_gib=machine.ram_gib,
            )  # fmt: skip


def google_zones(machine: str, region: str) -> tuple[str, ...]:
    """Return the zones of ``region`` with this machine; ("",) where the zones are not known."""
    regions = tables.GCP_ZONES.get(machine.rpartition("-")[0])
    if regions is None:
        return ("",)
    return tuple(f"{region}-{letter}" for letter in regions.get(region, ""))


def machine_name(count: int, gpu: str) -> str:
    """Name a machine of a provider that names none, e.g. ``8x H100 SXM``."""
    name = tables.SHORT_CARD_NAMES.get(gpu, card_of(gpu).name)
    for maker in ("GeForce ", "Instinct ", "Tesla "):
        name = name.removeprefix(maker)
    return f"{count}x {name}"


def _columns(point: Point) -> list[str]:
    key = point.key
    return [
        key.provider,
        key.tier,
        key.region,
        key.zone,
        key.instance_type,
        key.gpu,
        str(key.gpu_count),
        plain(card_of(key.gpu).vram_gb),
        "" if point.vcpu is None else str(point.vcpu),
        "" if point.ram_gib is None else str(point.ram_gib),
        key.purchase_option,
        plain(point.usd),
        point.availability,
        point.as_of,
        point.source,
        "no" if any(words in point.note for words in tables.NOT_FIRM) else "yes",
        point.note,
    ]


def _citation(text: str) -> str:
    """Shorten a source text to its name; what matters of the rest is in the note."""
    return text.split(" (", 1)[0].split(";", 1)[0].split(": ", 1)[0]


def _money(text: str) -> Decimal:
    return Decimal(text).quantize(Decimal("0.000001"))


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with io.TextIOWrapper(
        gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb"), "utf-8", newline=""
    ) as file:
        yield from csv.DictReader(file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
