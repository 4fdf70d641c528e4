"""The bundled snapshot: what a fresh install shows, and that it can be made again."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import UTC, datetime
from decimal import Decimal
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.clock import parse_instant
from core.gpus import catalogue, vram_fits
from core.market import EgressTariff, Offer, OfferKey, Parsed, PurchaseOption
from pricing.snapshot import (
    EGRESS_FILE,
    OFFER_COLUMNS,
    OFFERS_FILE,
    SNAPSHOT_DATE,
    bundled,
    newest,
    parse,
    titles,
)
from pricing.source import Payload
from scripts.build_snapshot import Key, Point, build, changes
from tests.shared import ROOT, shared

FILES = ROOT / "pricing" / "snapshot"
SERVING_GPUS = (
    "h100-sxm",
    "a100-80gb-sxm",
    "l40s",
    "l4",
    "a10g",
    "rtx-4090",
    "h200-sxm",
    "b200",
    "mi300x",
)


@pytest.fixture(scope="module")
def snapshot() -> Parsed:
    return bundled()


@pytest.fixture(scope="module")
def current(snapshot: Parsed) -> list[Offer]:
    return newest(snapshot.offers)


def rows(name: str) -> list[dict[str, str]]:
    with (FILES / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_every_row_of_the_shipped_tables_is_accepted(snapshot: Parsed) -> None:
    assert snapshot.rejected == []
    assert snapshot.failures == []
    assert len(snapshot.offers) == len(rows(OFFERS_FILE)) > 2_500
    assert sum(len(tariff.tiers) for tariff in snapshot.egress) == len(rows(EGRESS_FILE))


def test_it_is_wide_enough_for_a_first_look(current: list[Offer]) -> None:
    assert len({o.provider for o in current}) >= 20
    assert len({o.gpu for o in current}) >= 30
    assert len({o.provider for o in current if o.purchase_option is PurchaseOption.SPOT}) >= 10


@pytest.mark.parametrize("gpu", SERVING_GPUS)
@pytest.mark.parametrize("option", [PurchaseOption.ON_DEMAND, PurchaseOption.SPOT])
def test_the_popular_serving_gpus_have_both_options(
    current: list[Offer], gpu: str, option: PurchaseOption
) -> None:
    assert [o for o in current if o.gpu == gpu and o.purchase_option is option]


@pytest.mark.parametrize(
    "gpu", ["h100-sxm", "a100-80gb-sxm", "l40s", "l4", "a10g", "a100-40gb-sxm"]
)
def test_spot_capacity_spreads_over_regions_and_zones(current: list[Offer], gpu: str) -> None:
    spot = [o for o in current if o.gpu == gpu and o.purchase_option is PurchaseOption.SPOT]
    assert len({(o.provider, o.region) for o in spot}) >= 4
    assert len({(o.provider, o.zone) for o in spot if o.zone}) >= 7


def test_the_snapshot_date_is_the_newest_price(snapshot: Parsed) -> None:
    assert max(o.observed_at for o in snapshot.offers).date() == SNAPSHOT_DATE
    assert max(t.observed_at for t in snapshot.egress).date() <= SNAPSHOT_DATE


def test_no_price_is_older_than_the_cuts_of_june_2025(snapshot: Parsed) -> None:
    assert min(o.observed_at for o in snapshot.offers) >= datetime(2025, 6, 1, tzinfo=UTC)


def test_each_row_names_its_source_and_a_known_card(snapshot: Parsed) -> None:
    for offer in snapshot.offers:
        assert offer.source_url
        assert vram_fits(catalogue()[offer.gpu], offer.vram_gib)
        assert Decimal("0.05") <= offer.usd_per_gpu_hour <= Decimal(30), offer


def test_every_provider_has_a_title(snapshot: Parsed) -> None:
    named = {o.provider for o in snapshot.offers} | {t.provider for t in snapshot.egress}
    assert named <= titles.keys()


def test_no_offer_has_two_prices_at_one_time(snapshot: Parsed) -> None:
    seen: dict[tuple[OfferKey, datetime], Decimal] = {}
    for offer in snapshot.offers:
        assert (offer.key, offer.observed_at) not in seen, offer
        seen[offer.key, offer.observed_at] = offer.usd_per_hour


def test_spot_is_below_on_demand_unless_the_note_says_otherwise(current: list[Offer]) -> None:
    on_demand: dict[tuple[str, str, str, str], list[Decimal]] = defaultdict(list)
    for offer in current:
        if offer.purchase_option is PurchaseOption.ON_DEMAND:
            place = (offer.provider, offer.tier, offer.region, offer.instance_type)
            on_demand[place].append(offer.usd_per_hour)
    compared = 0
    for offer in current:
        place = (offer.provider, offer.tier, offer.region, offer.instance_type)
        if offer.purchase_option is PurchaseOption.SPOT and place in on_demand:
            compared += 1
            cheaper = offer.usd_per_hour < min(on_demand[place])
            assert cheaper or "no saving" in offer.note, offer
    assert compared > 500


def test_runpod_has_no_spot_since_it_ended(snapshot: Parsed) -> None:
    runpod = [o for o in snapshot.offers if o.provider == "runpod"]
    assert runpod
    assert all(o.purchase_option is PurchaseOption.ON_DEMAND for o in runpod)


def test_resellers_are_left_out(snapshot: Parsed) -> None:
    sellers = {o.provider for o in snapshot.offers}
    assert not sellers & {"primeintellect", "shadeform", "spheron"}


def test_google_machines_stand_only_where_they_exist(current: list[Offer]) -> None:
    """Without the zone lists London has an A100 at a ninth of its price: there is none there."""
    a100 = [o for o in current if o.instance_type == "a2-highgpu-1g"]
    assert "us-central1" in {o.region for o in a100}
    assert "europe-west2" not in {o.region for o in a100}
    for offer in current:
        if offer.provider == "gcp" and offer.zone:
            assert offer.zone.rpartition("-")[0] == offer.region


def test_google_machines_below_eight_h100_are_sold_on_spot_only(current: list[Offer]) -> None:
    small = [o for o in current if o.instance_type == "a3-highgpu-1g"]
    assert small
    assert all(o.purchase_option is PurchaseOption.SPOT for o in small)


# provider, region, zone, machine, option, USD per hour of the instance, day: re-read by hand.
KNOWN = [
    ("lambda", "*", "", "8x H100 SXM", "on_demand", "31.92", "2026-09-20"),
    ("lambda", "*", "", "1x H100 SXM", "on_demand", "4.29", "2026-09-20"),
    ("coreweave", "north-america", "", "8x H200 SXM", "spot", "20.93", "2026-09-20"),
    ("runpod", "*", "", "1x H100 SXM", "on_demand", "3.99", "2026-11-09"),
    ("verda", "*", "", "1x L40S", "spot", "0.941", "2026-10-29"),
    ("hyperstack", "*", "", "8x H100 PCIe (NVLink)", "on_demand", "20.8", "2026-08-26"),
    ("nebius", "*", "", "1x H100 SXM", "on_demand", "4.5", "2026-10-01"),
    ("nebius", "*", "", "1x B200", "spot", "3.95", "2026-09-30"),
    ("aws", "us-east-1", "", "p5.48xlarge", "on_demand", "55.04", "2026-09-01"),
    ("aws", "us-east-1", "use1-az1", "g6e.48xlarge", "spot", "8.0189", "2025-07-01"),
    ("aws", "eu-central-1", "euc1-az2", "p4de.24xlarge", "spot", "8.0274", "2025-07-01"),
    ("azure", "eastus", "", "Standard_ND96isr_H100_v5", "spot", "18.169536", "2026-09-01"),
    ("gcp", "us-central1", "us-central1-a", "a3-highgpu-8g", "spot", "50.609541", "2026-07-30"),
    ("gcp", "us-central1", "us-central1-b", "g2-standard-4", "on_demand", "0.706832", "2026-07-30"),
    ("gcp", "us-central1", "us-central1-b", "a4-highgpu-8g", "spot", "39.6336", "2026-07-30"),
    ("oci", "*", "", "BM.GPU.MI300X.8", "on_demand", "48", "2026-08-22"),
    ("oci", "*", "", "VM.GPU3.1", "spot", "1.475", "2026-08-22"),
    ("salad", "*", "", "1x RTX 4090", "spot", "0.16", "2026-08-22"),
    ("vastai", "*", "", "1x RTX 4090", "spot", "0.12", "2026-07-13"),
    ("vastai", "US-Utah", "", "2x B300", "on_demand", "15.002", "2026-08-15"),
    ("modal", "*", "", "1x H100 SXM", "spot", "3.9492", "2026-08-22"),
    ("digitalocean", "*", "", "1x MI300X", "on_demand", "2.59", "2026-10-07"),
]


@pytest.mark.parametrize("known", KNOWN, ids=lambda k: f"{k[0]} {k[3]} {k[4]}")
def test_figures_equal_those_read_by_hand(
    current: list[Offer], known: tuple[str, str, str, str, str, str, str]
) -> None:
    provider, region, zone, machine, option, usd, day = known
    place = (provider, region, zone, machine, option)
    found = [
        o
        for o in current
        if (o.provider, o.region, o.zone, o.instance_type, o.purchase_option.value) == place
        and o.tier.value == ("community" if provider in {"salad", "vastai"} else "secure")
    ]
    assert [(o.usd_per_hour, o.observed_at.date().isoformat()) for o in found] == [
        (Decimal(usd), day)
    ]


def test_a_price_read_as_sold_out_stays_sold_out(current: list[Offer]) -> None:
    sold_out = [(o.provider, o.instance_type) for o in current if o.availability == "sold_out"]
    assert sold_out == [("digitalocean", "1x MI300X")]


def test_history_shows_the_price_rise_of_august_2026(snapshot: Parsed) -> None:
    rise = [
        (o.observed_at.date().isoformat(), o.usd_per_hour)
        for o in snapshot.offers
        if o.provider == "digitalocean" and o.gpu == "h200-sxm"
    ]
    assert rise == [
        ("2026-07-20", Decimal("3.44")),
        ("2026-08-02", Decimal("4.47")),
        ("2026-08-22", Decimal("4.47")),
    ]


def test_history_shows_how_google_spot_more_than_doubled_in_2026(snapshot: Parsed) -> None:
    series = [
        o
        for o in snapshot.offers
        if (o.zone, o.instance_type, o.purchase_option)
        == ("us-central1-a", "a3-highgpu-8g", PurchaseOption.SPOT)
    ]
    new_year = datetime(2026, 1, 31, tzinfo=UTC)
    january = max((o for o in series if o.observed_at <= new_year), key=lambda o: o.observed_at)
    assert january.usd_per_hour.quantize(Decimal("0.01")) == Decimal("23.45")
    assert len(series) >= 10


def bill(tariff: EgressTariff, volume: str) -> Decimal:
    """USD for a month's volume; written for these tests alone."""
    left, at, total = Decimal(volume) - tariff.free_gb_per_month, Decimal(0), Decimal(0)
    for tier in tariff.tiers:
        width = left if tier.to_gb is None else min(left, tier.to_gb - at)
        assert tier.usd_per_gb is not None
        total += width * tier.usd_per_gb
        left, at = left - width, at + width
    return total


@pytest.mark.parametrize(
    ("provider", "region", "network_tier", "usd"),
    [
        ("aws", "us-east-1", "internet", "1742.70"),
        ("azure", "eastus", "routing_preference_microsoft", "1692.64"),
        ("azure", "eastus", "routing_preference_internet", "1443.50"),
        ("gcp", "us-central1", "standard", "1487.80"),
        ("oci", "north america", "internet", "82.96"),
        ("coreweave", "*", "internet", "0"),
    ],
)
def test_20_000_gb_cost_what_the_worked_bills_say(
    snapshot: Parsed, provider: str, region: str, network_tier: str, usd: str
) -> None:
    key = (provider, region, network_tier, "internet")
    [tariff] = [t for t in snapshot.egress if t.key == key]
    assert bill(tariff, "20000") == Decimal(usd)


def test_the_free_100_gb_of_aws_come_off_before_the_ladder_and_nowhere_else(
    snapshot: Parsed,
) -> None:
    free = {t.provider for t in snapshot.egress if t.free_gb_per_month}
    assert free == {"aws"}
    government = [t for t in snapshot.egress if t.region.startswith("us-gov-")]
    assert government
    assert all(t.free_gb_per_month == 0 for t in government)


def test_an_unknown_traffic_price_is_none_and_never_zero(snapshot: Parsed) -> None:
    unknown = {
        t.provider for t in snapshot.egress if all(tier.usd_per_gb is None for tier in t.tiers)
    }
    assert {"verda", "crusoe", "vastai", "together"} <= unknown
    assert not unknown & {"runpod", "lambda", "coreweave", "hyperstack"}


def test_no_traffic_tariff_comes_twice(snapshot: Parsed) -> None:
    keys = [t.key for t in snapshot.egress]
    assert len(keys) == len(set(keys))


def test_the_tables_are_small_enough_to_ship() -> None:
    assert (FILES / OFFERS_FILE).stat().st_size < 600_000
    assert (FILES / EGRESS_FILE).stat().st_size < 200_000


def test_the_required_attributions_are_in_the_notice() -> None:
    notice = (ROOT / "NOTICE").read_text("utf-8")
    assert "GPU rental price data by gpurentalprices.com, CC BY 4.0" in notice
    assert "Cyclenerd/google-cloud-pricing-cost-calculator" in notice


@pytest.mark.shared
def test_the_generator_writes_the_same_bytes_again(tmp_path: Path) -> None:
    build(shared(), tmp_path)
    for name in (OFFERS_FILE, EGRESS_FILE):
        assert (tmp_path / name).read_bytes() == (FILES / name).read_bytes(), name


def offers_payload(*lines: str) -> Payload:
    text = "\n".join([",".join(OFFER_COLUMNS), *lines]) + "\n"
    at = datetime(2026, 11, 9, tzinfo=UTC)
    return Payload(OFFERS_FILE, text.encode(), "test", at)


GOOD = "x,secure,*,,1x L4,l4,1,24,,,spot,0.5,,2026-09-01,price page,yes,"


def test_one_broken_row_does_not_hide_the_others() -> None:
    parsed = parse([offers_payload(GOOD, GOOD.replace("0.5", "half"), GOOD)])
    assert len(parsed.offers) == 2
    assert [r.reason for r in parsed.rejected] == ["bad_number"]


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (",l4,1", ",l44,1", "unknown_gpu"),
        (",24,", ",80,", "vram_mismatch"),
        ("0.5", "0", "implausible_price"),
        ("0.5", "900", "implausible_price"),
        ("0.5", "nan", "bad_value"),
        ("price page", "", "missing_field"),
        (",spot,", ",auction,", "bad_value"),
        ("2026-09-01", "2026-13-01", "bad_value"),
        (",yes,", ",maybe,", "bad_value"),
        (",yes,", ",yes", "bad_shape"),
        (",yes,", ",yes,,more", "bad_shape"),
        ("secure", "vetted", "bad_value"),
    ],
)
def test_a_broken_row_is_rejected_with_its_reason(old: str, new: str, reason: str) -> None:
    assert old in GOOD
    parsed = parse([offers_payload(GOOD.replace(old, new, 1))])
    assert parsed.offers == []
    assert [r.reason for r in parsed.rejected] == [reason]


def test_a_table_with_other_columns_is_a_failure() -> None:
    at = datetime(2026, 11, 9, tzinfo=UTC)
    parsed = parse([Payload(OFFERS_FILE, b"a,b\n1,2\n", "test", at)])
    assert [f.reason for f in parsed.failures] == ["wrong_columns"]


@given(st.binary(max_size=400), st.sampled_from([OFFERS_FILE, EGRESS_FILE, "other"]))
def test_any_bytes_are_parsed_without_an_exception(body: bytes, name: str) -> None:
    header = ",".join(OFFER_COLUMNS).encode() + b"\n" if name == OFFERS_FILE else b""
    at = datetime(2026, 11, 9, tzinfo=UTC)
    parsed = parse([Payload(name, header + body, "test", at)])
    assert parsed.offers == [] or body


KEY = Key("x", "secure", "*", "", "1x L4", "l4", 1, "spot")


def price_at(points: list[Point], day: int) -> Decimal:
    """The price that a step function through ``points`` has on ``day``."""
    return [p for p in points if parse_instant(p.as_of).day <= day][-1].usd


@given(
    st.dictionaries(st.integers(1, 28), st.integers(1, 3), min_size=1).map(
        lambda prices: sorted(prices.items())
    )
)
def test_keeping_only_changes_loses_no_price(prices: list[tuple[int, int]]) -> None:
    points = [
        Point(key=KEY, usd=Decimal(usd), as_of=f"2026-07-{day:02}", source="s")
        for day, usd in prices
    ]
    kept = list(changes(reversed(points)))
    assert [price_at(kept, day) for day, _ in prices] == [usd for _, usd in prices]
    assert kept[-1].as_of == points[-1].as_of
    inner = kept[:-1]
    assert all(a.usd != b.usd for a, b in pairwise(inner))


def test_two_prices_at_one_time_stop_the_generator() -> None:
    points = [
        Point(key=KEY, usd=Decimal(usd), as_of="2026-07-01", source="s") for usd in ("1", "2")
    ]
    with pytest.raises(ValueError, match="two prices at 2026-07-01"):
        list(changes(points))


def test_prices_that_are_no_rent_are_marked_as_not_firm(current: list[Offer]) -> None:
    loose = [offer for offer in current if not offer.firm]
    assert {offer.provider for offer in loose} >= {"modal", "tensordock", "crusoe"}
    assert all(offer.note for offer in loose)
    assert all("GPU alone" not in offer.note for offer in current if offer.firm)
