"""Verda: whole-instance texts, total memory, two stock lists, JSON-LD, the login."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Failure, Parsed
from core.settings import Settings
from pricing import fx
from pricing.providers.verda import (
    LOCATIONS_FILE,
    PAGE_FILE,
    PROVIDER,
    STOCK_FILES,
    TYPES_FILE,
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
)
from tests.pricing.acceptance import recorded as recorded_of

ON_DEMAND, SPOT = STOCK_FILES
API_FILES = (TYPES_FILE, ON_DEMAND, SPOT, LOCATIONS_FILE)
RATE = {"as_of": "2026-11-27", "base": "EUR", "quote": "USD", "rate": 1.1}
KEYS = {"verda_client_id": "an-id", "verda_client_secret": "a-secret"}


def recorded(*names: str) -> Parsed:
    return parse([recorded_of("verda", name) for name in names])


def kind(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "instance_type": "2H200.141S.88V",
        "name": "H200 SXM5 141GB",
        "currency": "usd",
        "cpu": {"number_of_cores": 88},
        "gpu": {"number_of_gpus": 2},
        "gpu_memory": {"size_in_gigabytes": 282},
        "memory": {"size_in_gigabytes": 370},
        "price_per_hour": "6.78",
        "spot_price": None,
    }
    return {**row, **changes}


def types(*rows: object) -> Payload:
    return made(rows, TYPES_FILE)


def stock(name: str, **places: object) -> Payload:
    rows = [{"location_code": code, "availabilities": names} for code, names in places.items()]
    return made(rows, name)


def linked(*offers: object, **more: Any) -> Payload:
    document = {"@type": "Product", "offers": {"@type": "AggregateOffer", "offers": offers}}
    text = f'<script type="application/ld+json">{json.dumps({**document, **more})}</script>'
    return made(f"<html><body>{text}</body></html>".encode(), PAGE_FILE)


def offer_of(name: str = "2x H100 SXM5 80GB on-demand", **changes: Any) -> dict[str, Any]:
    return {"@type": "Offer", "name": name, "priceCurrency": "USD", "price": 7.9, **changes}


@pytest.mark.shared
def test_what_the_recorded_answers_hold_besides_offers_is_rejected_by_reason() -> None:
    api, page = recorded(*API_FILES), recorded(PAGE_FILE)
    assert (len(api.offers), failures(api), failures(page)) == (20, [], [])
    assert reasons(api) == {
        "closed_location": 2,
        "no_price": 1,
        "spot_equals_on_demand": 1,
        "unknown_type": 1,
        "not_gpu": 1,
    }
    assert reasons(page) == {"other_product": 3, "no_vram": 1}


def test_memory_is_the_total_and_the_price_that_of_the_whole_instance() -> None:
    (offer,) = parse([types(kind())]).offers
    assert (offer.gpu, offer.gpu_count, offer.vram_gib) == ("h200-sxm", Decimal(2), Decimal(141))
    assert (offer.usd_per_hour, offer.usd_per_gpu_hour) == (Decimal("6.78"), Decimal("3.39"))
    assert (offer.region, offer.availability, offer.egress_usd_per_gb) == ("*", "unknown", None)


def test_each_option_is_offered_where_its_own_stock_list_says() -> None:
    name = kind()["instance_type"]
    parsed = parse(
        [
            types(kind(spot_price="2.4")),
            stock(ON_DEMAND, A=["other"], B=[]),
            stock(SPOT, A=[name], B=[name, name]),
        ]
    )
    found = {(o.purchase_option.value, o.region): o.availability.value for o in parsed.offers}
    assert found == {
        ("on_demand", "*"): "sold_out",
        ("spot", "A"): "available",
        ("spot", "B"): "available",
    }
    assert reasons(parsed) == {"unknown_type": 1}


def test_a_location_that_is_closed_has_no_stock() -> None:
    name = kind()["instance_type"]
    places = made([{"code": "FIN-01"}], LOCATIONS_FILE)
    parsed = parse([types(kind()), stock(ON_DEMAND, ICE=[name], **{"FIN-01": [name]}), places])
    assert [offer.region for offer in parsed.offers] == ["FIN-01"]
    assert reasons(parsed) == {"closed_location": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"gpu": {"number_of_gpus": 0}}, "not_gpu"),
        ({"gpu": {"number_of_gpus": 1.5}}, "bad_value"),
        ({"gpu": None}, "bad_shape"),
        ({"gpu_memory": {"size_in_gigabytes": 141}}, "vram_mismatch"),
        ({"name": "H200 141GB"}, "ambiguous_gpu"),
        ({"name": "AMD 7900XTX"}, "unknown_gpu"),
        ({"name": ""}, "bad_shape"),
        ({"price_per_hour": None}, "no_price"),
        ({"price_per_hour": "0.00"}, "zero_price"),
        ({"price_per_hour": "ask us"}, "bad_number"),
        ({"price_per_hour": "-1"}, "bad_value"),
        ({"price_per_hour": "4000"}, "implausible_price"),
        ({"currency": None}, "bad_shape"),
        ({"currency": "gbp"}, "no_fx_rate"),
        ({"cpu": {"number_of_cores": 0}}, "bad_value"),
    ],
)
def test_a_type_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = parse([types(kind(**changes))])
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize(
    ("spot", "reason"),
    [("6.780", "spot_equals_on_demand"), ("0", "zero_price"), (None, "no_price"), ([], "bad")],
)
def test_a_spot_price_that_is_none_costs_only_itself(spot: object, reason: str) -> None:
    listed = stock(SPOT, A=[kind()["instance_type"]])
    parsed = parse([types(kind(spot_price=spot)), listed])
    assert [offer.purchase_option.value for offer in parsed.offers] == ["on_demand"]
    ((found, count),) = reasons(parsed).items()
    assert found.startswith(reason)
    assert count == 1


def test_a_spot_price_above_the_on_demand_price_is_believed() -> None:
    offers = parse([types(kind(spot_price="7"))]).offers
    assert [offer.usd_per_hour for offer in offers] == [Decimal("6.78"), Decimal(7)]


def test_euro_prices_keep_their_amount_and_are_converted_by_a_dated_rate() -> None:
    row = kind(currency="eur", spot_price="2")
    offers = parse([types(row), made(RATE, fx.OWN_FILE)]).offers
    assert [(o.currency, o.native_price_per_hour, o.usd_per_hour) for o in offers] == [
        ("EUR", Decimal("6.78"), Decimal("7.458")),
        ("EUR", Decimal(2), Decimal("2.2")),
    ]
    assert all("2026-11-27" in offer.note for offer in offers)
    without = parse([types(row)])
    assert (without.offers, failures(without)) == ([], ["no_fx_rate"])


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("2x H100 SXM5 80GB serverless", "other_product"),
        ("2x H100 SXM5 80GB serverless spot", "other_product"),
        ("16x H100 SXM5 80GB instant cluster", "other_product"),
        ("2x H100 SXM5 80GB reserved on-demand", "other_product"),
        ("2x H100 SXM5 80GB", "other_product"),
        ("H100 SXM5 80GB on-demand", "no_gpu_count"),
        ("1x GB300 on-demand", "no_vram"),
        ("1x H100 80GB on-demand", "ambiguous_gpu"),
        ("1x R100 80GB spot", "unknown_gpu"),
        (None, "bad_shape"),
    ],
)
def test_other_products_of_the_page_are_rejected_by_reason(name: Any, reason: str) -> None:
    parsed = parse([linked(offer_of(), offer_of(name=name))])
    assert ([o.usd_per_hour for o in parsed.offers], dict(reasons(parsed))) == (
        [Decimal("7.9")],
        {reason: 1},
    )


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"price": 0}, "zero_price"),
        ({"price": None}, "bad_number"),
        ({"price": "7,90"}, "bad_number"),
        ({"priceCurrency": None}, "bad_shape"),
        ({"priceCurrency": "EUR"}, "no_fx_rate"),
    ],
)
def test_a_page_price_without_amount_or_currency_is_refused(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = parse([linked(offer_of(**changes))])
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})
    assert failures(parsed)


@pytest.mark.parametrize(
    ("name", "body", "reason"),
    [
        (TYPES_FILE, [], "empty_list"),
        (TYPES_FILE, {"code": "unauthorized_request", "message": "no"}, "error_answer"),
        (TYPES_FILE, {"instance_types": [kind()]}, "not_a_price_list"),
        (TYPES_FILE, b'[{"instance', "truncated"),
        (SPOT, b"<html><title>Access denied</title></html>", "block_page"),
        (LOCATIONS_FILE, [{"code": "FIN-01"}], "not_a_price_list"),
        (ON_DEMAND, [{"location_code": "A", "availabilities": []}], "not_a_price_list"),
        (PAGE_FILE, b"<html><h1>Pricing</h1>$3.95</html>", "no_prices_found"),
        (PAGE_FILE, b'<script type="application/ld+json">{"a": </script>', "truncated"),
        (PAGE_FILE, b"", "empty_body"),
        ("sizes.json", [kind()], "unknown_payload"),
    ],
)
def test_a_payload_that_is_no_price_list_is_a_failure(name: str, body: object, reason: str) -> None:
    parsed = parse([made(body, name)])
    assert parsed.offers == []
    assert failures(parsed)[0] == reason


@settings(max_examples=200)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "verda", seed)


@settings(max_examples=150)
@given(ANY_JSON)
def test_any_value_in_any_field_never_raises_and_each_row_is_accounted_for(value: object) -> None:
    for key in kind():
        parsed = parse([types(kind(**{key: value}), value)])
        assert failures(parsed) or len(parsed.offers) + parsed.rejected_rows >= 2
    for key in offer_of():
        assert isinstance(parse([linked({**offer_of(), key: value}, value)]), Parsed)
    parse([types(kind()), made([{"location_code": value, "availabilities": value}], SPOT)])
    parse([types(kind()), made([value, {"code": value}], LOCATIONS_FILE), stock(SPOT, A=[value])])


def answers(name: str) -> object:
    return {"access_token": "tok"} if name == "token.json" else recorded_of("verda", name)


@pytest.mark.shared
def test_with_credentials_the_api_is_read_and_no_secret_leaves_its_place() -> None:
    session = FakeSession(answers, **KEYS)
    got = [item for item in fetch(session) if isinstance(item, Payload)]
    assert [payload.name for payload in got] == list(API_FILES)
    login = session.requests[0]
    assert login[1] == "https://api.verda.com/v1/oauth2/token"
    assert json.loads(login[2])["grant_type"] == "client_credentials"
    for name, url, sent, headers in session.requests[1:]:
        assert headers == {"Authorization": "Bearer tok"}
        assert not any(secret in name + url + sent for secret in ("tok", *KEYS.values()))
    assert [json.loads(sent) for _, _, sent, _ in session.requests[1:]] == [
        {"currency": "usd"},
        {"is_spot": "false"},
        {"is_spot": "true"},
        {},
    ]
    assert len(parse(got).offers) == 20
    assert sorted(PROVIDER.primary([PAGE_FILE, *API_FILES])) == sorted(API_FILES)


@pytest.mark.parametrize("values", [{}, {"verda_client_id": "an-id"}])
def test_without_credentials_the_public_page_is_read_as_a_page(values: dict[str, str]) -> None:
    session = FakeSession(lambda _: linked(offer_of()), **values)
    assert [item.name for item in fetch(session) if isinstance(item, Payload)] == [PAGE_FILE]
    assert session.pages == ["https://verda.com/pricing"]
    assert list(PROVIDER.primary([PAGE_FILE, SPOT])) == [PAGE_FILE]
    assert PROVIDER.missing_key(Settings.model_validate(values)) is None


def test_an_account_in_euro_makes_the_rates_part_of_the_run() -> None:
    def answer(name: str) -> object:
        known = {"token.json": {"access_token": "t"}, TYPES_FILE: [kind(currency="eur")]}
        return known.get(name, [])

    session = FakeSession(answer, **KEYS)
    assert [item.name for item in fetch(session) if isinstance(item, Payload)][-1] == fx.ECB_FILE
    assert fx.ECB_HOST in PROVIDER.hosts


@pytest.mark.parametrize("broken", ["token.json", *API_FILES])
def test_types_and_stock_are_needed_and_locations_are_not(broken: str) -> None:
    down = SourceError("HTTP 503", reason="http_503", status=503)

    def answer(name: str) -> object:
        if name == broken:
            return down
        return {"access_token": "t"} if name == "token.json" else [kind()]

    session = FakeSession(answer, **KEYS)
    if broken != LOCATIONS_FILE:
        with pytest.raises(SourceError, match="503"):
            list(fetch(session))
        return
    items = list(fetch(session))
    assert [i.source_file for i in items if isinstance(i, Failure)] == [LOCATIONS_FILE]


@pytest.mark.parametrize("body", [{}, [], {"access_token": ""}, {"access_token": 5}, b"<html>"])
def test_a_login_without_a_token_is_an_error(body: object) -> None:
    with pytest.raises(SourceError, match="no access token"):
        list(fetch(FakeSession(lambda _: body, **KEYS)))
