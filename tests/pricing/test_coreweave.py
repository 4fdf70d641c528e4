"""CoreWeave: labelled rows of the page, node prices, lookalikes, footnotes, free traffic."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.market import Parsed
from core.settings import Settings
from pricing.providers.coreweave import PAGE_FILE, PROVIDER, fetch, parse
from pricing.source import Payload
from tests.pricing.acceptance import (
    FakeSession,
    check_mutations,
    failures,
    made,
    reasons,
    recorded,
)

AMERICA = "<h4>REGION: NORTH AMERICA</h4>"


def row(
    product: str = "nvidia-h100",
    name: str = "NVIDIA HGX H100",
    *,
    count: str | None = "8",
    vram: str = "80",
    vcpus: str = "128",
    ram: str = "2,048",
    on_demand: str = "$49.24 / Hour",
    spot: str = "$19.71 / Hour",
    classes: str = "table-meta-value",
) -> str:
    facts = [("GPU Count", count), ("VRAM (GB)", vram), ("vCPUs", vcpus), ("System RAM (GB)", ram)]
    cells = "".join(
        f'<div><div class="{classes}">{value}</div><div>{label}</div></div>'
        for label, value in facts
        if value is not None
    )
    return (
        f'<div><div><h3 data-product="{product}">{name}</h3></div>{cells}'
        f"<div><span>On-Demand Price: <span>{on_demand}</span></span>"
        f"<span>Spot Price: <span>{spot}</span></span></div><div>$1.00</div></div>"
    )


def page(*rows: str, head: str = f"<h2>GPU instances</h2>{AMERICA}", tail: str = "") -> Payload:
    body = f"<html><body>{head}<div>{''.join(rows)}</div>{tail}</body></html>"
    return made(body.encode(), PAGE_FILE)


def read(*rows: str, head: str = f"<h2>GPU instances</h2>{AMERICA}", tail: str = "") -> Parsed:
    return parse([page(*rows, head=head, tail=tail)])


@pytest.mark.shared
def test_what_the_recorded_page_holds_besides_offers_is_rejected_by_reason() -> None:
    parsed = parse([recorded("coreweave", PAGE_FILE)])
    assert (len(parsed.offers), failures(parsed)) == (16, [])
    assert reasons(parsed) == {"no_price": 10, "not_gpu": 1, "other_product": 2}


def test_a_price_is_that_of_the_node_and_the_unlabelled_copy_is_not_read() -> None:
    offers = read(row()).offers
    assert {o.purchase_option.value: o.usd_per_hour for o in offers} == {
        "on_demand": Decimal("49.24"),
        "spot": Decimal("19.71"),
    }
    first = offers[0]
    assert (first.region, first.gpu_count, first.vcpu) == ("north-america", Decimal(8), 128)
    assert (first.usd_per_gpu_hour, first.ram_gib) == (Decimal("6.155"), Decimal(2048))


def test_a_footnote_mark_is_no_digit_and_a_rack_is_not_firm() -> None:
    rack = row("nvidia-gb200-nvl72", "NVIDIA GB200 NVL72", count="4<sup>1</sup>", vram="186")
    offers = read(rack, row()).offers
    assert [(o.gpu, o.gpu_count, o.firm) for o in offers if o.purchase_option == "on_demand"] == [
        ("gb200", Decimal(4), False),
        ("h100-sxm", Decimal(8), True),
    ]
    assert "rack" in offers[0].note


def test_a_longer_mark_that_contains_a_shorter_one_is_another_card() -> None:
    rows = [
        row("nvidia-b200", "NVIDIA HGX B200", vram="180"),
        row("nvidia-gb200-nvl72", "NVIDIA GB200 NVL72", vram="186"),
        row("nvidia-l40", "NVIDIA L40", vram="48"),
        row("nvidia-l40s", "NVIDIA L40S", vram="48"),
    ]
    cards = ["b200", "gb200", "l40", "l40s"]
    assert [offer.gpu for offer in read(*rows).offers[::2]] == cards


def test_each_block_is_a_region() -> None:
    parsed = read(row(), tail=f"<h4>REGION: EUROPE</h4><div>{row()}</div>")
    assert [offer.region for offer in parsed.offers] == ["north-america"] * 2 + ["europe"] * 2


@pytest.mark.parametrize(
    ("head", "reason"),
    [
        ("<h2>GPU instances</h2>", "no_region"),
        (f"{AMERICA}<h2>GPU instances</h2>", "no_region"),
        (f"<h2>Reserved capacity</h2>{AMERICA}", "commitment"),
    ],
)
def test_a_row_without_region_or_under_a_commitment_is_rejected(head: str, reason: str) -> None:
    parsed = read(row(), head=head)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})
    assert failures(parsed) == ["no_prices_found"]


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (row(count=None), "not_gpu"),
        (row(count="—"), "bad_number"),
        (row(count="0"), "bad_value"),
        (row(count="eight"), "bad_number"),
        (row(vram="94"), "vram_mismatch"),
        (row(ram="2.048,0"), "bad_number"),
        (row("nvidia-r100", "NVIDIA R100"), "unknown_gpu"),
        (row("nvidia-h100-pro", "NVIDIA H100"), "ambiguous_gpu"),
        (row("", "NVIDIA HGX H100"), "unknown_gpu"),
        ('<div><h3 data-product="nvidia-h100">NVIDIA HGX H100</h3></div>', "no_price"),
    ],
)
def test_a_row_that_is_no_offer_is_rejected_by_reason(changed: str, reason: str) -> None:
    parsed = read(row(), changed)
    assert (len(parsed.offers), dict(reasons(parsed))) == (2, {reason: 1})


@pytest.mark.parametrize(
    ("figure", "reason"),
    [
        ("N/A", "no_price"),
        ("Contact sales", "no_price"),
        ("", "no_price"),
        ("$0.00 / Hour", "zero_price"),
        ("€49.24 / Hour", "currency"),
        ("49.24 / Hour", "currency"),
        ("$49.24", "unit"),
        ("$49.24 / month", "unit"),
        ("$6.15 / GPU / Hour", "unit"),
        ("From $49.24 / Hour", "starting_price"),
        ("$49.24 $39.24 / Hour", "bad_value"),
        ("$49240 / Hour", "implausible_price"),
    ],
)
def test_a_figure_of_another_meaning_costs_only_its_option(figure: str, reason: str) -> None:
    for option in ("on_demand", "spot"):
        parsed = read(row(on_demand=figure)) if option == "on_demand" else read(row(spot=figure))
        assert [o.purchase_option.value for o in parsed.offers] != [option]
        assert (len(parsed.offers), dict(reasons(parsed))) == (1, {reason: 1})


def test_two_figures_for_one_row_are_a_conflict() -> None:
    double = row().replace("<div>$1.00</div>", "<div>Spot Price: <b>$5.00 / Hour</b></div>")
    parsed = read(double)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {"price_conflict": 1})


def test_markup_with_other_classes_gives_the_same_and_without_labels_fails_loudly() -> None:
    assert read(row(classes="x-9f3")).offers == read(row()).offers
    bare = read(row().replace("On-Demand Price:", "").replace("Spot Price:", ""))
    assert (bare.offers, failures(bare)) == ([], ["no_prices_found"])


def test_traffic_is_free_only_where_the_page_says_so() -> None:
    table = "<table><tr><th>Service</th><th>Price</th></tr><tr><td>{}</td><td>{}</td></tr></table>"
    parsed = read(row(), tail=table.format("Ingress and egress", "Free"))
    assert [(t.region, t.destination) for t in parsed.egress] == [("*", "internet")]
    assert [tier.usd_per_gb for tier in parsed.egress[0].tiers] == [Decimal(0)]
    assert {offer.egress_usd_per_gb for offer in parsed.offers} == {Decimal(0)}
    for service, price in (("Object storage egress", "Free"), ("Egress", "$0.01 / GB")):
        parsed = read(row(), tail=table.format(service, price))
        assert (parsed.egress, {o.egress_usd_per_gb for o in parsed.offers}) == ([], {None})


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"<html><title>Access denied</title></html>", "block_page"),
        (b"<html><h1>Pricing</h1>$49.24 / Hour</html>", "no_prices_found"),
        (b'{"error": "no page"}', "no_prices_found"),
        (b"", "empty_body"),
    ],
)
def test_a_body_that_is_no_price_page_is_a_failure(body: bytes, reason: str) -> None:
    parsed = parse([made(body, PAGE_FILE)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


@settings(max_examples=100)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "coreweave", seed)


@settings(max_examples=60)
@given(st.text(max_size=30))
def test_any_text_in_any_cell_never_raises(text: str) -> None:
    for key in ("product", "name", "count", "vram", "vcpus", "ram", "on_demand", "spot"):
        assert isinstance(read(row(**{key: text}), row()), Parsed)


def test_the_public_page_is_fetched_as_a_page_without_a_key() -> None:
    session = FakeSession(lambda _: page(row()))
    assert [item.name for item in fetch(session) if isinstance(item, Payload)] == [PAGE_FILE]
    assert session.pages == ["https://www.coreweave.com/pricing"]
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
    assert list(PROVIDER.primary([PAGE_FILE, "expected_egress.csv"])) == [PAGE_FILE]
    assert PROVIDER.every == timedelta(hours=12)
