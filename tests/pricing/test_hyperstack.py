"""Hyperstack: flavours joined with prices per GPU, and a page whose headings say how one pays."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Parsed
from core.settings import Settings
from pricing.merge import merged
from pricing.providers.hyperstack import (
    FLAVORS_FILE,
    PAGE_FILE,
    PRICES_FILE,
    PROVIDER,
    fetch,
    parse,
)
from pricing.source import Payload
from tests.pricing.acceptance import (
    ANY_JSON,
    FakeSession,
    check_mutations,
    failures,
    made,
    reasons,
    recorded,
)

KEY = "hyperstack-secret-key"
MODEL = "H100-80G-SXM5"


def flavor(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "name": "n3-H100-SXM5x8",
        "region_name": "US-1",
        "cpu": 192,
        "ram": 1800.0,
        "gpu": MODEL,
        "gpu_count": 8,
        "stock_available": True,
        "labels": [],
    }
    return {**row, **changes}


def price(name: str = MODEL, value: object = 3.2, listed: object = 3.2) -> dict[str, Any]:
    return {"name": name, "value": value, "original_value": listed}


def read(*flavors: object, book: object = None) -> Parsed:
    prices = [price(), price(f"{MODEL}-spot", 2, 2)] if book is None else book
    return parse(
        [
            made({"status": True, "data": [{"flavors": flavors}]}, FLAVORS_FILE),
            made(prices, PRICES_FILE),
        ]
    )


GPU = ("GPU Model", "NVIDIA H100 SXM")
REST = (("VRAM (GB)", "80"), ("Max pCPUs per GPU", "24"), ("Max RAM (GB) per GPU", "240"))
PRICE = ("Price", "$3.20 per hour")
TRAFFIC = (
    "<h2>Network</h2><table><tr><th>Resource</th><th>Price per hour</th></tr>"
    "<tr><td>Public IP</td><td>$0.0067</td></tr>"
    "<tr><td>Ingress / Egress traffic</td><td>{}</td></tr></table>"
)


def page(heading: str, *columns: tuple[str, str], after: str = "") -> Parsed:
    head = "".join(f"<th>{name}</th>" for name, _ in columns)
    row = "".join(f"<td>{text}</td>" for _, text in columns)
    html = f"<h2>{heading}</h2><table><tr>{head}</tr><tr>{row}</tr></table>{after}"
    return parse([made(html.encode(), PAGE_FILE)])


@pytest.mark.shared
def test_the_recorded_page_rejects_reservations_and_takes_free_traffic_for_no_offer() -> None:
    parsed = parse([recorded("hyperstack", PAGE_FILE)])
    assert reasons(parsed) == {"commitment": 3, "not_gpu": 1}
    assert (len(parsed.offers), len(parsed.egress), failures(parsed)) == (17, 1, [])
    assert {offer.egress_usd_per_gb for offer in parsed.offers} == {Decimal(0)}


@pytest.mark.shared
def test_the_recorded_flavours_reject_only_the_one_without_gpu() -> None:
    parsed = parse([recorded("hyperstack", name) for name in (FLAVORS_FILE, PRICES_FILE)])
    assert (len(parsed.offers), reasons(parsed), failures(parsed)) == (9, {"not_gpu": 1}, [])
    (discounted,) = (offer for offer in parsed.offers if offer.gpu == "l40")
    assert discounted.note == "list price; this account's is 0.9 per GPU"


def test_a_flavour_costs_its_price_per_gpu_times_its_gpus() -> None:
    (offer,) = read(flavor()).offers
    assert (offer.usd_per_hour, offer.usd_per_gpu_hour) == (Decimal("25.6"), Decimal("3.2"))
    assert (offer.gpu, offer.vcpu, offer.ram_gib) == ("h100-sxm", 192, Decimal(1800))
    assert (offer.purchase_option, offer.availability) == ("on_demand", "available")


def test_a_discount_of_the_account_is_not_the_list_price() -> None:
    (offer,) = read(flavor(), book=[price(value=2.5)]).offers
    assert offer.usd_per_gpu_hour == Decimal("3.2")
    assert offer.note == "list price; this account's is 2.5 per GPU"


@pytest.mark.parametrize(
    "changes",
    [
        {"name": "n3-H100-SXM5x8-spot"},
        {"labels": [{"id": 7, "label": "Spot"}]},
        {"name": "n3-H100-SXM5x8-SPOT", "labels": None},
    ],
)
def test_a_spot_flavour_has_its_own_price_and_never_the_on_demand_one(
    changes: dict[str, Any],
) -> None:
    (offer,) = read(flavor(**changes)).offers
    assert (offer.purchase_option, offer.usd_per_gpu_hour) == ("spot", Decimal(2))
    unpriced = read(flavor(**changes), book=[price()])
    assert (unpriced.offers, dict(reasons(unpriced))) == ([], {"no_price": 1})


@pytest.mark.parametrize(
    ("stock", "availability"), [(True, "available"), (False, "sold_out"), (None, "unknown")]
)
def test_stock_is_what_the_flavour_says(stock: object, availability: str) -> None:
    (offer,) = read(flavor(stock_available=stock)).offers
    assert offer.availability == availability


@pytest.mark.parametrize(
    ("model", "card"),
    [
        ("H100-80G-PCIe", "h100-pcie"),
        ("H100-80G-PCIe-NVLink", "h100-pcie"),
        ("A100-80G-PCIe", "a100-80gb-pcie"),
        ("A100-80G-SXM4", "a100-80gb-sxm"),
        ("H200-141G-SXM5", "h200-sxm"),
        ("L40", "l40"),
        ("RTX-A6000", "rtx-a6000"),
    ],
)
def test_a_model_of_the_price_book_is_one_card(model: str, card: str) -> None:
    (offer,) = read(flavor(gpu=model), book=[price(model)]).offers
    assert offer.gpu == card
    assert ("NVLink" in offer.note) == model.endswith("NVLink")


@pytest.mark.parametrize(
    ("changes", "book", "reason"),
    [
        ({"gpu": "", "gpu_count": 0}, None, "not_gpu"),
        ({"gpu_count": 0}, None, "bad_value"),
        ({"gpu_count": None}, None, "bad_number"),
        ({"gpu": "B200-180G-SXM6"}, None, "no_price"),
        ({"gpu": None}, None, "bad_shape"),
        ({"region_name": None}, None, "bad_shape"),
        ({"labels": "spot"}, None, "bad_shape"),
        ({"ram": 0}, None, "bad_value"),
        ({}, [price(listed=0)], "zero_price"),
        ({}, [price(listed=-1)], "implausible_price"),
        ({}, [price(listed=1000)], "implausible_price"),
        ({"gpu": "H100"}, [price("H100")], "ambiguous_gpu"),
        ({"gpu": "H100-40G-SXM5"}, [price("H100-40G-SXM5")], "vram_mismatch"),
        ({"gpu": "R200-80G-SXM9"}, [price("R200-80G-SXM9")], "unknown_gpu"),
    ],
)
def test_a_flavour_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], book: object, reason: str
) -> None:
    parsed = read(flavor(**changes), book=book)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


def test_two_prices_of_one_model_are_a_conflict_not_a_choice() -> None:
    clean, conflicts = merged(read(flavor(), book=[price(), price(listed=3.3), price()]))
    assert (clean.offers, len(conflicts), dict(reasons(clean))) == ([], 1, {"price_conflict": 2})


def test_neither_half_of_the_api_is_a_price_list_alone() -> None:
    alone = {
        name: failures(parse([made(body, name)]))
        for name, body in (
            (FLAVORS_FILE, {"data": [{"flavors": [flavor()]}]}),
            (PRICES_FILE, [price()]),
            ("stocks.json", {"stocks": []}),
        )
    }
    assert alone == {
        FLAVORS_FILE: ["no_price_book"],
        PRICES_FILE: ["not_a_price_list"],
        "stocks.json": ["not_a_price_list"],
    }


def test_a_price_that_is_no_number_costs_only_the_flavours_that_need_it() -> None:
    parsed = read(flavor(), flavor(gpu="L40", name="l40"), book=[price(), price("L40", 1, None)])
    assert [offer.gpu for offer in parsed.offers] == ["h100-sxm"]
    assert reasons(parsed) == {"bad_number": 1, "no_price": 1}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"status": True, "data": []}, "empty_list"),
        ({"status": False, "message": "unauthorized"}, "error_answer"),
        ({"data": {"gpu": "x"}}, "bad_shape"),
        (b"<html><title>Access denied</title></html>", "block_page"),
        (b'{"data": [', "truncated"),
    ],
)
def test_a_body_that_is_no_list_of_flavours_is_a_failure(body: object, reason: str) -> None:
    parsed = parse([made(body, FLAVORS_FILE), made([price()], PRICES_FILE)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


def test_a_refused_price_book_is_a_failure() -> None:
    parsed = read(flavor(), book={"status": False, "message": "unauthorized"})
    assert (parsed.offers, failures(parsed)) == ([], ["no_price_book", "error_answer"])


@pytest.mark.parametrize(
    ("heading", "option"), [("On-Demand GPU pricing", "on_demand"), ("Spot VM pricing", "spot")]
)
def test_the_heading_of_a_table_says_how_one_pays(heading: str, option: str) -> None:
    (offer,) = page(heading, GPU, *REST, PRICE).offers
    assert (offer.purchase_option.value, offer.usd_per_hour) == (option, Decimal("3.20"))
    assert (offer.gpu, offer.vcpu, offer.ram_gib) == ("h100-sxm", 24, Decimal(240))
    assert offer.egress_usd_per_gb is None, "the page says nothing of traffic"


def test_columns_are_found_by_name() -> None:
    (offer,) = page("On-demand", PRICE, *reversed(REST), GPU).offers
    assert (offer.usd_per_hour, offer.vcpu) == (Decimal("3.20"), 24)


@pytest.mark.parametrize(
    ("heading", "columns", "reason"),
    [
        ("Reservation pricing", (GPU, *REST, PRICE), "commitment"),
        ("On-Demand", (GPU, *REST, ("1 year term price", "$2 per hour")), "commitment"),
        ("Pricing", (GPU, *REST, PRICE), "no_purchase_option"),
        ("On-demand and spot", (GPU, *REST, PRICE), "no_purchase_option"),
        ("On-demand", (GPU, *REST, ("Price", "Contact us")), "no_price"),
        ("On-demand", (GPU, *REST, ("Price", "from $3.20 per hour")), "starting_price"),
        ("On-demand", (GPU, *REST, ("Price", "€3.20 per hour")), "currency"),
        ("On-demand", (GPU, *REST, ("Price", "$3.20 per month")), "unit"),
        ("On-demand", (GPU, *REST, ("Price", "$0.00 per hour")), "zero_price"),
        ("On-demand", (GPU, *REST, ("Cost", "$3.20 per hour")), "missing_column"),
        ("On-demand", (GPU, ("VRAM (GB)", "40"), *REST[1:], PRICE), "vram_mismatch"),
        ("On-demand", (("GPU Model", "NVIDIA H100"), ("VRAM", "94"), PRICE), "vram_mismatch"),
        ("On-demand", (("GPU Model", "NVIDIA R200"), *REST, PRICE), "unknown_gpu"),
    ],
)
def test_a_page_price_of_another_meaning_is_rejected_by_reason(
    heading: str, columns: tuple[tuple[str, str], ...], reason: str
) -> None:
    parsed = page(heading, *columns)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})
    assert failures(parsed) == ["no_prices_found"]


@pytest.mark.parametrize(("text", "stated"), [("$0.00", True), ("Free", True), ("$0.09", False)])
def test_traffic_is_free_only_where_the_page_says_so(text: str, stated: bool) -> None:
    parsed = page("On-demand", GPU, *REST, PRICE, after=TRAFFIC.format(text))
    assert [t.usd_per_gb for tariff in parsed.egress for t in tariff.tiers] == [0] * stated
    assert parsed.offers[0].egress_usd_per_gb == (Decimal(0) if stated else None)
    assert reasons(parsed) == {"not_gpu": 1} | ({} if stated else {"unit": 1})


@settings(max_examples=300)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "hyperstack", seed)


@settings(max_examples=200)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in flavor():
        parsed = read(flavor(**{key: value}), value)
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows == 2
    read(flavor(), book=[price(value=value), price(listed=value), value])
    read(flavor(), book=value)
    parse([made({"data": [value, {"flavors": value}]}, FLAVORS_FILE)])


@settings(max_examples=100)
@given(st.text(max_size=30))
def test_any_text_in_any_cell_never_raises(text: str) -> None:
    for at in range(5):
        cells = [GPU, *REST, PRICE]
        cells[at] = (cells[at][0], text.replace("<", ""))
        page("On-demand", *cells, after=TRAFFIC.format(text))


def test_with_a_key_both_halves_are_fetched_and_the_key_stays_in_the_header() -> None:
    answers: dict[str, object] = {
        PRICES_FILE: [price()],
        FLAVORS_FILE: {"data": [{"flavors": [flavor()]}]},
    }
    session = FakeSession(answers.__getitem__, hyperstack_api_key=KEY)
    got = [item for item in fetch(session) if isinstance(item, Payload)]
    assert [(name, url) for name, url, _, _ in session.requests] == [
        (PRICES_FILE, "https://infrahub-api.nexgencloud.com/v1/pricebook"),
        (FLAVORS_FILE, "https://infrahub-api.nexgencloud.com/v1/core/flavors"),
    ]
    assert all(headers == {"api_key": KEY} for _, _, _, headers in session.requests)
    assert all(KEY not in name + url + sent for name, url, sent, _ in session.requests)
    assert session.pages == []
    assert len(parse(got).offers) == 1


def test_without_a_key_the_public_page_is_read_as_a_page() -> None:
    session = FakeSession(lambda _: b"<html></html>")
    assert [p.name for p in fetch(session) if isinstance(p, Payload)] == [PAGE_FILE]
    assert session.pages == ["https://www.hyperstack.cloud/gpu-pricing"]
    assert session.requests[0][3] == {}
    assert PROVIDER.missing_key(Settings.model_validate({})) is None


def test_a_failing_api_is_not_replaced_by_the_page_that_names_no_regions() -> None:
    session = FakeSession(
        lambda _: SourceError("HTTP 503", reason="http_503"), hyperstack_api_key=KEY
    )
    with pytest.raises(SourceError):
        list(fetch(session))
    assert session.names == [PRICES_FILE]


def test_a_recorded_folder_uses_the_api_else_the_page() -> None:
    names = [FLAVORS_FILE, PAGE_FILE, PRICES_FILE, "stocks.json"]
    assert list(PROVIDER.primary(names)) == [FLAVORS_FILE, PRICES_FILE]
    assert list(PROVIDER.primary(names[1:2])) == [PAGE_FILE]
    assert list(PROVIDER.primary(["stocks.json"])) == []
