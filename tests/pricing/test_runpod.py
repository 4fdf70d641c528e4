"""RunPod: acceptance against the recorded answers, traps of its three sources, the questions."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Failure, Offer, Parsed, PurchaseOption, Tier
from core.settings import Settings
from pricing.merge import merged
from pricing.providers.runpod import (
    GIVE_UP_AFTER,
    GRAPHQL_URL,
    PAGE_URL,
    PROVIDER,
    REST_URL,
    fetch,
    parse,
    request_of,
)
from pricing.providers.runpod_parts import Request, shape_of
from pricing.source import Payload
from tests.pricing.acceptance import (
    FakeSession,
    check_mutations,
    check_offers,
    failures,
    files,
    made,
    reasons,
    recorded,
)
from tests.shared import payloads, shared

KEY = "runpod-secret-key"
TYPES = "graphql_gpu_types.json"
X1 = "graphql_pods_secure_US-KS-2_x1.json"
X8 = "graphql_pods_secure_US-KS-2_x8.json"
COMMUNITY = "graphql_pods_community_US_x1.json"
AFTER_END = "graphql_pods_after_spot_end.json"
REST = "rest_v2_catalog_gpus_secure_x1.json"
FILES = (
    TYPES,
    X1,
    X8,
    COMMUNITY,
    AFTER_END,
    REST,
    "graphql_unknown_field_error.json",
    "graphql_partial_error.json",
    "rest_v2_429.json",
    "rest_v2_400.json",
    "pricing.html",
)
SPOT = PurchaseOption.SPOT


def gpu_type(lowest: object = None, **changes: Any) -> dict[str, Any]:
    price: dict[str, Any] = {
        "minimumBidPrice": None,
        "uninterruptablePrice": 0.8,
        "minVcpu": 16,
        "minMemory": 94,
        "stockStatus": "High",
        "countryCode": "US",
    }
    row: dict[str, Any] = {
        "id": "NVIDIA L40S",
        "memoryInGb": 48,
        "securePrice": 0.8,
        "communityPrice": 0.8,
        "lowestPrice": {**price, **lowest} if isinstance(lowest, dict) else lowest or price,
    }
    return {**row, **changes}


def pods(*rows: object, name: str = X1, **more: Any) -> Parsed:
    return parse([made({"data": {"gpuTypes": list(rows)}, **more}, name)])


def prices(parsed: Parsed) -> dict[str, Decimal]:
    return {offer.purchase_option.value: offer.usd_per_hour for offer in parsed.offers}


@pytest.mark.parametrize("name", FILES)
def test_each_recorded_file_gives_exactly_its_offers_and_tariffs(name: str) -> None:
    check_offers(parse, "runpod", name)


def test_every_recorded_file_is_covered() -> None:
    assert set(files("runpod")) == set(FILES)


@pytest.mark.parametrize(
    ("name", "rejected", "failed"),
    [
        (TYPES, {"null_country": 1, "unlisted_data_centre": 1, "placeholder": 1}, []),
        (X1, {"not_offered": 2, "placeholder": 1, "commitment": 5, "bid_equals_list": 1}, []),
        (X8, {"not_offered": 2, "commitment": 3}, []),
        (COMMUNITY, {"not_offered": 1}, []),
        (AFTER_END, {"commitment": 1}, []),
        (REST, {"serverless": 8, "other_cloud": 7}, []),
        ("pricing.html", {"no_price": 1, "per_second": 2, "storage_price": 4}, []),
        ("graphql_unknown_field_error.json", {}, ["graphql_error"]),
        ("graphql_partial_error.json", {}, ["graphql_error"]),
        ("rest_v2_429.json", {}, ["http_429"]),
        ("rest_v2_400.json", {}, ["http_400"]),
    ],
)
def test_what_is_no_offer_is_reported_by_reason(
    name: str, rejected: dict[str, int], failed: list[str]
) -> None:
    parsed = parse([recorded("runpod", name)])
    assert (dict(reasons(parsed)), failures(parsed)) == (rejected, failed)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("akamai_403.html", "block_page"),
        ("cloudflare_challenge_status200.html", "block_page"),
        ("maintenance_200.html", "maintenance"),
        ("html_instead_of_json.html", "no_prices_found"),
        ("truncated.json", "truncated"),
    ],
)
def test_a_body_that_is_no_price_list_is_a_failure(name: str, reason: str) -> None:
    parsed = parse([made((payloads("common") / name).read_bytes(), name)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


def test_a_price_per_card_becomes_a_price_per_instance_once() -> None:
    case = json.loads(shared("cases", "b04_runpod_offer.json").read_text())
    bid, count = case["secureSpotPrice_per_gpu"], case["gpuCount"]
    row = gpu_type(
        {"minimumBidPrice": bid, "uninterruptablePrice": 0.3},
        id=case["id"],
        memoryInGb=case["memoryInGb"],
        securePrice=0.3,
    )
    parsed = pods(row, name=f"graphql_pods_secure_{case['dataCenterId']}_x{count}.json")
    spot = next(offer for offer in parsed.offers if offer.purchase_option is SPOT)
    assert (spot.region, spot.gpu, spot.gpu_count) == ("EUR-IS-1", "rtx-a4000", Decimal(8))
    assert (spot.usd_per_hour, spot.usd_per_gpu_hour) == (Decimal("1.28"), Decimal("0.16"))


@pytest.mark.parametrize(
    ("name", "request_"),
    [
        (X8, Request(Tier.SECURE, "US-KS-2", 8)),
        (COMMUNITY, Request(Tier.COMMUNITY, "US", 1)),
        (AFTER_END, Request(Tier.SECURE, "US-KS-2", 1)),
        ("rest_v2_catalog_gpus_community_x2.json", Request(Tier.COMMUNITY, "", 2)),
        ("graphql_pods_secure_US-KS-2_x0.json", None),
        ("graphql_pods_secure_../etc_x1.json", None),
        ("graphql_pods_all_US_x1.json", None),
        (TYPES, None),
    ],
)
def test_the_payload_name_tells_the_question(name: str, request_: Request | None) -> None:
    assert request_of(name) == request_


@pytest.mark.parametrize("name", ["pods.json", "graphql_pods_secure_x1.json"])
def test_an_answer_without_its_question_is_a_failure(name: str) -> None:
    parsed = pods(gpu_type(), name=name)
    assert (parsed.offers, failures(parsed)) == ([], ["unknown_request"])


@pytest.mark.parametrize(
    ("stock", "availability"),
    [
        ("High", "available"),
        ("Medium", "available"),
        ("Low", "limited"),
        ("None", "sold_out"),
        ("Plenty", "unknown"),
    ],
)
def test_stock_words_are_read(stock: str, availability: str) -> None:
    (offer,) = pods(gpu_type({"stockStatus": stock})).offers
    assert offer.availability == availability


def test_a_sold_out_pod_without_sizes_keeps_its_price() -> None:
    (offer,) = pods(gpu_type({"stockStatus": "None", "minVcpu": None, "minMemory": None})).offers
    assert (offer.vcpu, offer.ram_gib, offer.usd_per_hour) == (None, None, Decimal("0.8"))


@pytest.mark.parametrize("bid", [None, 0, -0.1])
def test_no_bid_means_no_spot(bid: object) -> None:
    assert prices(pods(gpu_type({"minimumBidPrice": bid}))) == {"on_demand": Decimal("0.8")}


@pytest.mark.parametrize("bid", [0.8, 0.9])
def test_a_bid_at_list_price_is_no_spot(bid: float) -> None:
    parsed = pods(gpu_type({"minimumBidPrice": bid}))
    assert prices(parsed) == {"on_demand": Decimal("0.8")}
    assert reasons(parsed) == {"bid_equals_list": 1}


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (gpu_type(securePrice=0), "not_offered"),
        (gpu_type(securePrice=None), "not_offered"),
        (gpu_type({"stockStatus": None}), "not_offered"),
        (gpu_type({}, lowestPrice=None), "not_offered"),
        (gpu_type(lowest="x"), "bad_shape"),
        (gpu_type({"uninterruptablePrice": 0.9}), "price_conflict"),
        (gpu_type(id="unknown"), "placeholder"),
        (gpu_type(memoryInGb=0), "placeholder"),
        (gpu_type(id=None), "bad_shape"),
        (gpu_type(id="NVIDIA R100", memoryInGb=48), "unknown_gpu"),
        (gpu_type(memoryInGb=80), "vram_mismatch"),
        (gpu_type(id="NVIDIA H200", memoryInGb=80), "vram_mismatch"),
        (gpu_type(securePrice=500, lowest={"uninterruptablePrice": None}), "implausible_price"),
        ({"id": "NVIDIA L40S"}, "missing_field"),
        ("a text", "bad_shape"),
    ],
)
def test_a_row_that_is_no_offer_is_rejected_by_reason(row: object, reason: str) -> None:
    parsed = pods(row)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


def test_an_answer_for_another_country_is_not_filed_under_the_one_asked_for() -> None:
    parsed = pods(gpu_type({"countryCode": "CA"}), name=COMMUNITY)
    assert (parsed.offers, dict(reasons(parsed))) == ([], {"wrong_place": 1})


def test_month_and_cluster_prices_never_become_a_price() -> None:
    terms = dict.fromkeys(("oneMonthPrice", "threeMonthPrice", "sixMonthPrice", "clusterPrice"), 1)
    parsed = pods(gpu_type(securePrice=None, **terms), gpu_type(**terms))
    assert prices(parsed) == {"on_demand": Decimal("0.8")}
    assert reasons(parsed) == {"commitment": 2, "not_offered": 1}


def test_errors_beside_rows_keep_the_rows_and_mark_the_answer() -> None:
    parsed = pods(gpu_type(), errors=[{"message": "one field failed"}])
    assert (len(parsed.offers), failures(parsed)) == (1, ["graphql_error"])


@pytest.mark.parametrize("errors", [["text"], "text", {"message": "m"}, [None], 1])
def test_errors_of_any_shape_are_a_failure(errors: object) -> None:
    assert failures(parse([made({"errors": errors, "data": None}, X1)])) == ["graphql_error"]


def test_an_empty_list_of_types_is_a_failure() -> None:
    assert failures(pods()) == ["empty_list"]


def test_a_mig_slice_is_a_part_of_its_card_at_every_count() -> None:
    name = "NVIDIA RTX PRO 6000 Blackwell Server Edition MIG 1g.24gb"
    row = gpu_type(id=name, memoryInGb=24)
    (offer,) = pods(row, name="graphql_pods_secure_US-KS-2_x2.json").offers
    assert (offer.gpu, offer.gpu_count, offer.vram_gib) == (
        "rtx-pro-6000",
        Decimal("0.5"),
        Decimal(96),
    )
    assert offer.usd_per_gpu_hour == Decimal("3.2")
    assert reasons(pods(gpu_type(id=name, memoryInGb=96))) == {"vram_mismatch": 1}


@pytest.mark.parametrize(
    ("name", "memory", "card"),
    [
        ("AMD Instinct MI300X OAM", 192, "mi300x"),
        ("NVIDIA A100 80GB PCIe", 80, "a100-80gb-pcie"),
        ("NVIDIA A100-SXM4-80GB", 80, "a100-80gb-sxm"),
        ("NVIDIA A100-SXM4-40GB", 40, "a100-40gb-sxm"),
        ("NVIDIA H100 80GB HBM3", 80, "h100-sxm"),
        ("NVIDIA H100 PCIe", 80, "h100-pcie"),
        ("NVIDIA H100 NVL", 94, "h100-nvl"),
        ("NVIDIA H200", 141, "h200-sxm"),
        ("NVIDIA H200 NVL", 143, "h200-nvl"),
        ("NVIDIA B200", 180, "b200"),
        ("NVIDIA B300 SXM6 AC", 288, "b300"),
        ("NVIDIA L4", 24, "l4"),
        ("NVIDIA L40", 48, "l40"),
        ("NVIDIA L40S", 48, "l40s"),
        ("NVIDIA GeForce RTX 4090", 24, "rtx-4090"),
        ("NVIDIA GeForce RTX 5090", 32, "rtx-5090"),
        ("NVIDIA RTX A6000", 48, "rtx-a6000"),
        ("NVIDIA RTX 6000 Ada Generation", 48, "rtx-6000-ada"),
        ("Tesla V100-PCIE-16GB", 16, "v100-16gb"),
    ],
)
def test_runpods_ids_lead_to_their_cards(name: str, memory: int, card: str) -> None:
    shape = shape_of(name, Decimal(memory))
    assert (shape.card.id, shape.share) == (card, Decimal(1))


def test_the_page_is_read_from_its_attributes_not_from_the_figure_shown() -> None:
    body = recorded("runpod", "pricing.html").read()
    toggled = body.replace(b">$4.59<", b">$0.01<").replace(b">$6.79<", b">$5.98<")
    assert toggled != body
    first, second = (parse([made(b, "pricing.html")]).offers for b in (body, toggled))
    assert first == second


def test_the_page_without_its_classes_gives_the_same_offers() -> None:
    body = recorded("runpod", "pricing.html").read()
    renamed = body.replace(b"gpu-pricing-row", b"x9k").replace(b"cc-gpu-price", b"y7")
    assert (
        parse([made(renamed, "pricing.html")]).offers == parse([made(body, "pricing.html")]).offers
    )


def test_a_page_without_price_attributes_fails() -> None:
    body = recorded("runpod", "pricing.html").read()
    renamed = body.replace(b"-cloud-price=", b"-price=")
    parsed = parse([made(renamed, "pricing.html")])
    assert (parsed.offers, parsed.egress, failures(parsed)) == ([], [], ["no_prices_found"])


def rest(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": "NVIDIA L40S",
        "memory": 48,
        "secure": True,
        "community": True,
        "price": {"secure": 0.8, "community": 0.7, "serverless": None},
        "availability": "LOW",
        "dataCenters": [{"id": "US-TX-3", "availability": "HIGH"}],
    }
    return {**row, **changes}


def catalogue_of(*rows: object, cloud: str = "secure", count: int = 1) -> Parsed:
    return parse([made({"gpus": list(rows)}, f"rest_v2_catalog_gpus_{cloud}_x{count}.json")])


def test_the_catalogue_gives_the_cloud_that_was_asked_for() -> None:
    parsed = catalogue_of(rest(dataCenters=[]), cloud="community", count=2)
    (offer,) = parsed.offers
    assert (offer.tier, offer.region, offer.availability) == (Tier.COMMUNITY, "*", "limited")
    assert (offer.usd_per_hour, offer.gpu_count) == (Decimal("1.4"), Decimal(2))
    assert reasons(parsed) == {"other_cloud": 1}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"secure": False, "price": {"secure": 1}}, "not_offered"),
        ({"price": {"secure": None}}, "not_offered"),
        ({"price": {"secure": 0}}, "not_offered"),
        ({"price": None}, "bad_shape"),
        ({"id": 3}, "bad_shape"),
        ({"price": {"secure": 1}, "dataCenters": "x"}, "bad_shape"),
        (
            {"price": {"secure": 1}, "dataCenters": [{"id": "A", "availability": None}]},
            "not_offered",
        ),
        ({"price": {"secure": 1}, "dataCenters": [{"id": 1, "availability": "LOW"}]}, "bad_shape"),
    ],
)
def test_a_catalogue_row_that_is_no_offer_is_rejected_by_reason(
    changes: dict[str, Any], reason: str
) -> None:
    parsed = catalogue_of(rest(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})


@pytest.mark.parametrize("gpus", [None, {}, [], "x"])
def test_a_catalogue_of_another_shape_is_a_failure(gpus: object) -> None:
    assert len(failures(parse([made({"gpus": gpus}, REST)]))) == 1


@settings(max_examples=400)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "runpod", seed)


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=2),
    st.just({"a": 1}),
)


@settings(max_examples=300)
@given(
    st.dictionaries(st.sampled_from(sorted(gpu_type())), _VALUES, max_size=3),
    st.dictionaries(st.sampled_from(sorted(gpu_type()["lowestPrice"])), _VALUES, max_size=3),
)
def test_any_value_in_any_field_gives_an_offer_that_holds_or_a_rejection(
    changes: dict[str, object], lowest: dict[str, object]
) -> None:
    parsed = pods(gpu_type(lowest, **changes))
    assert parsed.offers or parsed.rejected


SMALL_TYPES = {
    "data": {
        "countryCodes": ["US", None, "../x"],
        "dataCenters": [
            {"id": "US-KS-2", "listed": True},
            {"id": "US-DE-1", "listed": False},
            {"id": "EU-RO-1", "listed": True},
        ],
        "gpuTypes": [
            {
                "id": "NVIDIA L40S",
                "memoryInGb": 48,
                "maxGpuCountSecureCloud": 4,
                "maxGpuCountCommunityCloud": 2,
            },
            {"id": "unknown", "memoryInGb": 0, "maxGpuCountSecureCloud": None},
        ],
    }
}
QUESTIONS = [
    *(f"graphql_pods_secure_US-KS-2_x{n}.json" for n in (1, 2, 4)),
    *(f"graphql_pods_secure_EU-RO-1_x{n}.json" for n in (1, 2, 4)),
    *(f"graphql_pods_community_US_x{n}.json" for n in (1, 2)),
]


def answers(*broken: str) -> Callable[[str], object]:
    def answer(name: str) -> object:
        if name in broken:
            return SourceError("HTTP 502", reason="http_502", status=502)
        if name == TYPES:
            return SMALL_TYPES
        price = 0.8 if "US-KS-2" in name else 0.9
        row = gpu_type({"uninterruptablePrice": price}, securePrice=price, communityPrice=price)
        return {"data": {"gpuTypes": [row]}}

    return answer


def test_every_listed_place_is_asked_for_every_count_within_the_maximum() -> None:
    session = FakeSession(answers(), runpod_api_key=KEY)
    got = [p for p in fetch(session) if isinstance(p, Payload)]
    assert [p.name for p in got] == QUESTIONS
    assert session.names == [TYPES, *QUESTIONS]
    assert list(PROVIDER.primary([p.name for p in got])) == QUESTIONS
    assert {url for _, url, _, _ in session.requests} == {GRAPHQL_URL}
    session.assert_key_only_in_header(KEY, session.names)
    for name, _, sent, _ in session.requests[1:]:
        request = request_of(name)
        assert request is not None
        where = "dataCenterId" if request.tier is Tier.SECURE else "countryCode"
        assert json.loads(sent)["variables"] == {
            "filter": {"cluster": False},
            "lowest": {
                "secureCloud": request.tier is Tier.SECURE,
                where: request.place,
                "gpuCount": request.count,
            },
        }


def test_no_question_names_a_spot_field_and_every_variable_is_declared() -> None:
    session = FakeSession(answers())
    list(fetch(session))
    for _, _, sent, _ in session.requests:
        query = json.loads(sent)["query"]
        assert "bid" not in query.lower()
        assert "spot" not in query.lower()
        for variable in json.loads(sent).get("variables", {}):
            assert query.count(f"${variable}") == 2  # declared and used
    session.assert_key_only_in_header(KEY, [])


def test_a_question_that_fails_does_not_shift_the_answers_of_the_others() -> None:
    lost = "graphql_pods_secure_US-KS-2_x2.json"
    got = list(fetch(FakeSession(answers(lost))))
    (failure,) = (item for item in got if isinstance(item, Failure))
    assert (failure.reason, failure.source_file) == ("http_502", lost)
    offers = parse([item for item in got if isinstance(item, Payload)]).offers
    assert len(offers) == len(QUESTIONS) - 1
    for offer in offers:
        per_gpu = Decimal("0.8") if offer.region == "US-KS-2" else Decimal("0.9")
        assert offer.usd_per_gpu_hour == per_gpu


def test_a_source_that_answers_nothing_is_given_up_early() -> None:
    session = FakeSession(answers(*QUESTIONS))
    with pytest.raises(SourceError, match="502"):
        list(fetch(session))
    assert len(session.names) == 1 + GIVE_UP_AFTER


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ({"errors": [{"message": "x"}], "data": None}, "graphql_error"),
        ({"data": None}, "bad_shape"),
        ([], "bad_shape"),
        ({"data": {"countryCodes": [], "dataCenters": [], "gpuTypes": []}}, "empty_list"),
        ({"data": {"countryCodes": None, "dataCenters": [], "gpuTypes": []}}, "bad_shape"),
        (made(b"", TYPES), "empty_body"),
        (made(b"<html>hm</html>", TYPES), "html_instead_of_json"),
    ],
)
def test_an_unusable_list_of_places_is_a_failed_source(body: object, reason: str) -> None:
    session = FakeSession(lambda name: body)
    with pytest.raises(SourceError) as caught:
        list(fetch(session))
    assert (caught.value.reason, session.names) == (reason, [TYPES])


def gone(*also: str, status: int = 410) -> Callable[[str], object]:
    def answer(name: str) -> object:
        if name == TYPES or name in also:
            return SourceError(f"HTTP {status}", reason=f"http_{status}", status=status)
        source = REST if name.startswith("rest") else name
        return made(recorded("runpod", source).read(), name)

    return answer


REST_FILES = ["rest_v2_catalog_gpus_secure_x1.json", "rest_v2_catalog_gpus_community_x1.json"]


def test_with_a_key_the_rest_catalogue_stands_in_for_a_retired_graphql() -> None:
    session = FakeSession(gone(), runpod_api_key=KEY)
    got = list(fetch(session))
    assert [f.reason for f in got if isinstance(f, Failure)] == ["http_410"]
    assert [p.name for p in got if isinstance(p, Payload)] == REST_FILES
    assert {url for _, url, _, _ in session.requests[1:]} == {REST_URL}
    assert '"product": "POD"' in session.requests[1][2]
    assert '"cloud": "COMMUNITY"' in session.requests[2][2]
    session.assert_key_only_in_header(KEY, session.names)


@pytest.mark.parametrize("key", [None, KEY])
def test_without_a_key_or_catalogue_the_page_is_read_as_a_page(key: str | None) -> None:
    session = FakeSession(gone(*REST_FILES), runpod_api_key=key)
    got = [p for p in fetch(session) if isinstance(p, Payload)]
    assert [p.name for p in got] == ["pricing.html"]
    assert session.pages == [PAGE_URL]
    assert session.names == [TYPES, *(REST_FILES if key else []), "pricing.html"]
    session.assert_key_only_in_header(KEY, session.names[:-1] if key else [])


@pytest.mark.parametrize("status", [408, 429, 500, 503])
def test_a_passing_trouble_is_no_reason_to_read_another_source(status: int) -> None:
    session = FakeSession(gone(status=status), runpod_api_key=KEY)
    with pytest.raises(SourceError):
        list(fetch(session))
    assert session.names == [TYPES]


def test_a_recorded_folder_uses_one_source_and_one_picture_per_place() -> None:
    assert set(PROVIDER.primary(FILES)) == {X1, X8, COMMUNITY}
    assert list(PROVIDER.primary([AFTER_END, X8])) == [AFTER_END, X8]
    assert list(PROVIDER.primary([TYPES, REST, "pricing.html", "rest_v2_429.json"])) == [REST]
    assert list(PROVIDER.primary([TYPES, "pricing.html"])) == ["pricing.html"]
    clean, conflicts = merged(parse([recorded("runpod", n) for n in PROVIDER.primary(FILES)]))
    assert (len(clean.offers), conflicts) == (32, frozenset())


def test_spot_is_stated_to_have_ended_and_history_is_still_read() -> None:
    assert PROVIDER.ended == {SPOT: datetime(2026, 9, 11, tzinfo=UTC)}
    assert any("2026-09-11" in note for note in PROVIDER.notes)
    offers: list[Offer] = parse([recorded("runpod", X1)]).offers
    assert sum(offer.purchase_option is SPOT for offer in offers) == 6


def test_the_source_is_a_marketplace_read_hourly_without_need_of_a_key() -> None:
    assert (PROVIDER.name, PROVIDER.kind) == ("runpod", "marketplace")
    assert PROVIDER.every == timedelta(hours=1)
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
