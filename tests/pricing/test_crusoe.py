"""Crusoe: page prices joined with types and capacities, lookalike cards, signed requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
from collections import Counter
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Parsed
from core.settings import Settings
from pricing.providers.crusoe import PAGE_FILE, PROVIDER, STOCK_FILE, TYPES_FILE, fetch, parse
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

FILES = (TYPES_FILE, STOCK_FILE, PAGE_FILE)
SECRET = base64.urlsafe_b64encode(b"\xfb\xff secret bytes").decode().rstrip("=")
ACCOUNT = {
    "crusoe_access_key_id": "key-id",
    "crusoe_secret_key": SECRET,
    "crusoe_project_id": "p/1",
}


def item(name: str = "NVIDIA H100", *tags: str, price: str = "$3.90/GPU-hr") -> str:
    marks = "".join(f"<div>{tag}</div>" for tag in tags or ("80GB", "SXM"))
    return f"<div><h4>{name}</h4><div>{marks}</div><div><p>{price}</p></div></div>"


def page(*items: str, title: str = "GPU instances", more: str = "") -> Payload:
    body = f"<html><section><h2>{title}</h2>{''.join(items)}</section>{more}</html>"
    return made(body.encode(), PAGE_FILE)


def kind(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "product_name": "h100-80gb-sxm-ib.8x",
        "gpu_type": "H100-SXM-80GB",
        "num_gpu": 8,
        "cpu_cores": 176,
        "memory_gb": 960,
    }
    return {**row, **changes}


def items(name: str, *rows: object) -> Payload:
    return made({"items": rows}, name)


def free(quantity: object, place: str = "us-east1-a", **changes: Any) -> dict[str, Any]:
    row = {"type": kind()["product_name"], "location": place, "quantity": quantity}
    return {**row, **changes}


def read(*payloads: Payload, types: tuple[object, ...] = (kind(),)) -> Parsed:
    return parse([items(TYPES_FILE, *types), *(payloads or (page(item()),))])


@pytest.mark.shared
def test_what_the_recorded_answers_hold_besides_offers_is_rejected_by_reason() -> None:
    parsed = parse([recorded("crusoe", name) for name in FILES])
    assert (len(parsed.offers), failures(parsed)) == (8, [])
    assert reasons(parsed) == {
        "no_price": 3
        + 5,  # A100 40 GB, B200, MI355X; contact sales for two cards and spot of three
        "other_product": 2,
        "unknown_type": 1,
        "not_gpu": 2,
    }


def test_an_instance_costs_its_gpus_times_the_page_price_of_its_card() -> None:
    (offer,) = read().offers
    assert (offer.usd_per_hour, offer.usd_per_gpu_hour) == (Decimal("31.20"), Decimal("3.9"))
    assert (offer.region, offer.availability, offer.vcpu) == ("*", "unknown", 176)
    assert offer.egress_usd_per_gb is None


def test_cards_of_one_name_are_told_apart_by_form_and_memory() -> None:
    prices = page(
        item("NVIDIA A100", "80GB", "SXM", price="$2.30/GPU-hr"),
        item("NVIDIA A100", "80GB", "PCIe", price="$2.00/GPU-hr"),
    )
    names = {"A100-SXM-80GB": "2.30", "A100-PCIe-80GB": "2.00"}
    for gpu_type, usd in names.items():
        parsed = read(prices, types=(kind(gpu_type=gpu_type),))
        assert [offer.usd_per_gpu_hour for offer in parsed.offers] == [Decimal(usd)]
    parsed = read(prices, types=(kind(gpu_type="A100-PCIe-40GB"),))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {"no_price": 1})


def test_an_underscore_in_the_type_is_a_hyphen_and_two_digits_are_a_count() -> None:
    row = kind(gpu_type="MI355X_288GB", num_gpu=10, product_name="mi355x-288gb-roce.10x")
    prices = page(item("AMD MI355X", "288GB", "OAM", price="$5.00/GPU-hr"))
    assert [offer.usd_per_hour for offer in read(prices, types=(row,)).offers] == [Decimal(50)]


def test_of_several_capacities_of_one_place_the_largest_counts_in_any_order() -> None:
    rows = [free(0), free(3), free(1), free(0, "eu-iceland1-a")]
    for order in itertools.permutations(rows):
        parsed = read(items(STOCK_FILE, *order), page(item()))
        assert {offer.region: offer.availability.value for offer in parsed.offers} == {
            "us-east1-a": "available",
            "eu-iceland1-a": "sold_out",
        }


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_gpu": 0}, "not_gpu"),
        ({"num_gpu": 4}, "count_mismatch"),
        ({"num_gpu": None}, "bad_number"),
        ({"gpu_type": "H100-SXM"}, "no_vram"),
        ({"gpu_type": "H100-80GB"}, "ambiguous_gpu"),
        ({"gpu_type": "H100-SXM-96GB"}, "vram_mismatch"),
        ({"gpu_type": "R100-SXM-80GB"}, "unknown_gpu"),
        ({"gpu_type": ""}, "bad_shape"),
        ({"gpu_type": "L40S-48GB"}, "no_price"),
        ({"product_name": None}, "bad_shape"),
        ({"cpu_cores": 0}, "bad_value"),
        ({"memory_gb": -1}, "bad_value"),
    ],
)
def test_a_type_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = read(types=(kind(**changes),))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("changed", "reason"),
    [
        (item(price="Contact sales"), "no_price"),
        (item(price="$0.00/GPU-hr"), "zero_price"),
        (item(price="$3.90/hr"), "unit"),
        (item(price="$3.90/vCPU-hr"), "unit"),
        (item(price="€3.90/GPU-hr"), "unit"),
        (item(price="From $3.90/GPU-hr"), "starting_price"),
        (item(price="$3.90 $2.90 /GPU-hr"), "bad_value"),
        (item(price="$2.90/GPU-hr, 1 year"), "commitment"),
        (item(price="Reserved: $2.90/GPU-hr"), "commitment"),
        (item("NVIDIA H100", "SXM"), "no_vram"),
        (item("NVIDIA H100", "80GB", "SXM", "PCIe"), "no_vram"),
        (item("NVIDIA H100", "80GB"), "ambiguous_gpu"),
        (item("NVIDIA R100", "80GB", "SXM"), "unknown_gpu"),
    ],
)
def test_an_item_of_another_meaning_prices_nothing(changed: str, reason: str) -> None:
    other = item("NVIDIA L40S", "48GB", "PCIe", price="$1.50/GPU-hr")
    parsed = read(page(changed, other))
    assert parsed.offers == []
    # The second rejection is that of the machine, whose card is left without a price.
    assert reasons(parsed) == Counter([reason, "no_price"])


def test_the_self_serve_section_prices_no_instance() -> None:
    dear = f"<section><h2>Self-Serve Deployment</h2>{item(price='$5.50/GPU-hr')}</section>"
    parsed = read(page(item(), more=dear))
    assert [offer.usd_per_gpu_hour for offer in parsed.offers] == [Decimal("3.9")]
    assert reasons(parsed) == {"other_product": 1}
    alone = read(page(title="GPU instances", more=dear))
    assert (alone.offers, failures(alone)) == ([], ["not_a_price_list", "no_prices_found"])


def test_two_prices_for_one_card_are_a_conflict_whatever_the_order() -> None:
    for pair in itertools.permutations((item(), item(price="$4.10/GPU-hr"))):
        parsed = read(page(*pair))
        assert (parsed.offers, dict(reasons(parsed))) == ([], {"price_conflict": 1})


def test_a_spot_price_if_ever_stated_is_listed_but_not_firm() -> None:
    text = item(price="$3.90/GPU-hr</p><p>Spot: $1.95/GPU-hr")
    offers = read(items(STOCK_FILE, free(2)), page(text)).offers
    assert [(o.purchase_option.value, o.usd_per_hour, o.firm) for o in offers] == [
        ("on_demand", Decimal("31.20"), True),
        ("spot", Decimal("15.60"), False),
    ]


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (free(-1), "bad_value"),
        (free(None), "bad_number"),
        (free(1, type=None), "bad_shape"),
        (free(1, location=""), "bad_shape"),
        (free(1, type="zz9.1x"), "unknown_type"),
        (7, "bad_shape"),
    ],
)
def test_a_capacity_that_says_nothing_costs_only_itself(row: object, reason: str) -> None:
    parsed = read(items(STOCK_FILE, free(1), row), page(item()))
    assert [offer.region for offer in parsed.offers] == ["us-east1-a"]
    assert reasons(parsed) == {reason: 1}


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        (TYPES_FILE, {"items": []}, "empty_list"),
        (TYPES_FILE, {"items": {"a": 1}}, "bad_shape"),
        (TYPES_FILE, {"code": 401, "message": "denied"}, "error_answer"),
        (TYPES_FILE, {"items": [kind()]}, "not_a_price_list"),
        (STOCK_FILE, b'{"items": [{"ty', "truncated"),
        (STOCK_FILE, {"items": [free(1)]}, "not_a_price_list"),
        (PAGE_FILE, b"<html><title>Attention Required</title></html>", "block_page"),
        (PAGE_FILE, b"<html><h2>GPU instances</h2>$3.90/GPU-hr</html>", "no_prices_found"),
        (PAGE_FILE, b"", "empty_body"),
        ("sizes.json", {}, "unknown_payload"),
    ],
)
def test_a_payload_that_is_no_price_list_is_a_failure(name: str, body: object, reason: str) -> None:
    parsed = parse([made(body, name)])
    assert parsed.offers == []
    assert failures(parsed)[0] == reason


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(lambda given: read(*given), "crusoe", seed)


@settings(max_examples=150)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in kind():
        parsed = read(types=(kind(**{key: value}), value))
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows == 2
    for key in free(1):
        assert isinstance(read(items(STOCK_FILE, {**free(1), key: value}), page(item())), Parsed)
    text = str(value)
    read(page(item(text, text, text, price=text), title=text, more=text))


def test_requests_are_signed_with_the_time_of_the_answer_before() -> None:
    session = FakeSession(lambda name: recorded("crusoe", name), **ACCOUNT)
    got = [each for each in fetch(session) if isinstance(each, Payload)]
    assert session.names == [PAGE_FILE, TYPES_FILE, STOCK_FILE]
    assert session.pages == ["https://www.crusoe.ai/cloud/pricing"]
    time = "2026-11-30T12:00:00+00:00"
    paths = ["/v1alpha5/projects/p%2F1/compute/vms/types", "/v1alpha5/capacities"]
    for (_, url, sent, headers), path in zip(session.requests[1:], paths, strict=True):
        key = base64.urlsafe_b64decode(SECRET + "=" * (-len(SECRET) % 4))
        signed = hmac.digest(key, f"{path}\n\nGET\n{time}\n".encode(), hashlib.sha256)
        mark = base64.urlsafe_b64encode(signed).decode().rstrip("=")
        assert (url, sent) == (f"https://api.crusoecloud.com{path}", "{}")
        assert headers == {
            "X-Crusoe-Timestamp": time,
            "Authorization": f"Bearer 1.0:key-id:{mark}",
        }
        assert SECRET not in url + str(headers)
    assert len(parse(got).offers) == 8
    assert session.requests[0][3] == {}


@pytest.mark.parametrize("secret", ["not base64!", "ä", "abcde"])
def test_a_malformed_secret_is_said_without_repeating_it(secret: str) -> None:
    session = FakeSession(lambda _: page(item()), **{**ACCOUNT, "crusoe_secret_key": secret})
    with pytest.raises(SourceError, match="SPOTFLOOR_CRUSOE_SECRET_KEY") as caught:
        list(fetch(session))
    assert secret not in str(caught.value)


@pytest.mark.parametrize("broken", FILES)
def test_all_three_parts_are_needed(broken: str) -> None:
    down = SourceError("HTTP 503", reason="http_503", status=503)
    session = FakeSession(lambda name: down if name == broken else {}, **ACCOUNT)
    with pytest.raises(SourceError, match="503"):
        list(fetch(session))


def test_without_an_account_the_source_is_skipped_with_a_reason() -> None:
    why = PROVIDER.missing_key(Settings.model_validate({"crusoe_access_key_id": "x"}))
    assert why == "needs SPOTFLOOR_CRUSOE_SECRET_KEY or SPOTFLOOR_CRUSOE_PROJECT_ID"
    assert PROVIDER.missing_key(Settings.model_validate(ACCOUNT)) is None
    assert sorted(PROVIDER.primary([*FILES, "expected_offers.csv"])) == sorted(FILES)
