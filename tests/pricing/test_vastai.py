"""Vast.ai: acceptance against the recorded answers, traps of the market, and the two searches."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import SourceError
from core.market import Failure, Parsed, PurchaseOption, Tier
from core.settings import Settings
from pricing.merge import merged
from pricing.providers.vastai import API_URL, LIMIT, PROVIDER, fetch, parse
from pricing.source import Payload
from tests.pricing.acceptance import (
    FakeSession,
    check_mutations,
    check_offers,
    egress_of,
    expected_egress,
    failures,
    files,
    made,
    reasons,
    recorded,
)
from tests.shared import payloads

KEY = "vast-secret-key"
ON_DEMAND, BIDS = "bundles_ondemand.json", "bundles_bid.json"
FILES = (
    ON_DEMAND,
    BIDS,
    "gpu_types.json",
    "metrics_gpu_current.json",
    "http_404_invalid_key.json",
    "http_429.txt",
    "offers_as_object.json",
    "pricing_page_js_only.html",
)


def ask(**changes: Any) -> dict[str, Any]:
    row: dict[str, Any] = {
        "id": 1001,
        "machine_id": 7,
        "num_gpus": 2,
        "gpu_name": "RTX 4090",
        "gpu_ram": 24564,
        "gpu_total_ram": 49128,
        "gpu_frac": 0.25,
        "cpu_cores": 64,
        "cpu_cores_effective": 16.0,
        "cpu_ram": 262144,
        "dph_base": 0.8,
        "dph_total": 0.9,
        "min_bid": 0.4,
        "is_bid": False,
        "inet_up_cost": 0.005,
        "inet_down_cost": 0.002,
        "reliability2": 0.99,
        "verification": "verified",
        "hosting_type": 1,
        "rentable": True,
        "rented": False,
        "geolocation": "Utah, US",
        "storage_cost": 0.15,
        "duration": 2592000.0,
    }
    return {**row, **changes}


def market(*asks: object, name: str = ON_DEMAND) -> Parsed:
    return parse([made({"offers": list(asks)}, name)])


def prices(parsed: Parsed) -> dict[tuple[str, str], Decimal]:
    return {(o.offer_id, o.purchase_option.value): o.usd_per_hour for o in parsed.offers}


@pytest.mark.parametrize("name", FILES)
def test_each_recorded_file_gives_exactly_its_offers_and_tariffs(name: str) -> None:
    check_offers(parse, "vastai", name)


def test_every_recorded_file_is_covered() -> None:
    assert set(files("vastai")) == set(FILES)


@pytest.mark.parametrize(
    ("name", "rejected", "failed"),
    [
        (ON_DEMAND, {"no_gpu_count": 1}, []),
        (BIDS, {"zero_price": 1}, []),
        ("metrics_gpu_current.json", {"statistics": 4}, ["not_a_price_list"]),
        ("offers_as_object.json", {}, ["bad_shape"]),
        ("pricing_page_js_only.html", {}, ["no_prices_found"]),
        ("gpu_types.json", {}, ["not_a_price_list"]),
        ("http_404_invalid_key.json", {}, ["error_answer"]),
        ("http_429.txt", {}, ["rate_limited"]),
    ],
)
def test_what_is_no_offer_is_reported_by_reason(
    name: str, rejected: dict[str, int], failed: list[str]
) -> None:
    parsed = parse([recorded("vastai", name)])
    assert (dict(reasons(parsed)), failures(parsed)) == (rejected, failed)


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("akamai_403.html", "block_page"),
        ("cloudflare_challenge_status200.html", "block_page"),
        ("maintenance_200.html", "maintenance"),
        ("truncated.json", "truncated"),
    ],
)
def test_a_body_that_is_no_price_list_is_a_failure(name: str, reason: str) -> None:
    parsed = parse([made((payloads("common") / name).read_bytes(), name)])
    assert (parsed.offers, failures(parsed)) == ([], [reason])


def test_both_searches_together_are_one_market() -> None:
    parsed = parse([recorded("vastai", name) for name in (ON_DEMAND, BIDS)])
    clean, conflicts = merged(parsed)
    assert (len(clean.offers), conflicts) == (27, frozenset())
    assert egress_of(parsed) == expected_egress("vastai", ON_DEMAND)


def test_the_bid_search_never_gives_an_on_demand_price() -> None:
    for changes in ({"is_bid": True, "dph_base": 0.4}, {"is_bid": False}, {"is_bid": None}):
        parsed = market(ask(**changes), name=BIDS)
        assert {o.purchase_option for o in parsed.offers} == {PurchaseOption.SPOT}
    mixed = market(ask(is_bid=True, dph_base=0.4))
    assert prices(mixed) == {("1001", "spot"): Decimal("0.4")}


@pytest.mark.parametrize("order", [1, -1])
def test_a_bid_that_moved_between_the_searches_is_believed_to_the_bid_search(order: int) -> None:
    answers = [
        made({"offers": [ask()]}, ON_DEMAND),
        made({"offers": [ask(is_bid=True, dph_base=0.45)]}, BIDS),
    ]
    parsed = parse(answers[::order])
    assert prices(parsed) == {
        ("1001", "on_demand"): Decimal("0.8"),
        ("1001", "spot"): Decimal("0.45"),
    }
    assert reasons(parsed) == {"bid_moved": 1}
    assert merged(parsed)[1] == frozenset()


@pytest.mark.parametrize("bid", [0, None, 0.0])
def test_no_bid_means_no_interruptible_offer(bid: object) -> None:
    assert list(prices(market(ask(min_bid=bid)))) == [("1001", "on_demand")]


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"num_gpus": None}, "no_gpu_count"),
        ({"num_gpus": 0}, "bad_value"),
        ({"num_gpus": 1.5}, "bad_value"),
        ({"num_gpus": True}, "bad_number"),
        ({"dph_base": 0}, "zero_price"),
        ({"dph_base": -1}, "zero_price"),
        ({"dph_base": None}, "bad_number"),
        ({"gpu_name": "RTX 9090"}, "unknown_gpu"),
        ({"gpu_name": 4090}, "bad_shape"),
        ({"gpu_name": "H100"}, "vram_mismatch"),
        ({"gpu_name": "H200"}, "vram_mismatch"),
        ({"gpu_total_ram": 24564}, "inconsistent_memory"),
        ({"geolocation": ["US"]}, "bad_shape"),
        ({"resource_type": "cpu"}, "not_gpu"),
        ({"id": "a/b"}, "bad_number"),
        ({"id": 10**30}, "bad_value"),
        ({"inet_up_cost": -1, "min_bid": None}, "bad_value"),
        ({"dph_base": 1e6, "min_bid": None}, "implausible_price"),
    ],
)
def test_an_impossible_ask_is_rejected_by_reason(changes: dict[str, Any], reason: str) -> None:
    parsed = market(ask(**changes))
    assert (parsed.offers, dict(reasons(parsed))) == ([], {reason: 1})
    assert parsed.egress == []


def test_a_missing_count_never_becomes_one() -> None:
    row = ask()
    del row["num_gpus"]
    assert reasons(market(row)) == {"no_gpu_count": 1}


def test_storage_for_the_search_is_not_in_the_price_but_in_the_note() -> None:
    offer = market(ask(dph_total=5)).offers[0]
    assert offer.usd_per_hour == Decimal("0.8")
    assert "storage 0.15 USD/GB-month extra" in offer.note


@pytest.mark.parametrize(
    ("name", "memory_mb", "card"),
    [
        ("A100 SXM4", 40960, "a100-40gb-sxm"),
        ("A100 SXM4", 81920, "a100-80gb-sxm"),
        ("A100 PCIE", 40960, "a100-40gb-pcie"),
        ("A100 PCIE", 81920, "a100-80gb-pcie"),
        ("RTX_4090", 24564, "rtx-4090"),
        ("RTX 4090", 49140, "rtx-4090-48gb"),
        ("RTX 4090D", 24564, "rtx-4090d"),
        ("H100 SXM", 81559, "h100-sxm"),
        ("H100 NVL", 95830, "h100-nvl"),
        ("H200", 143771, "h200-sxm"),
        ("H200 NVL", 143771, "h200-nvl"),
        ("B200", 183359, "b200"),
        ("B300", 275040, "b300"),
        ("RTX 6000Ada", 49140, "rtx-6000-ada"),
        ("RTX A6000", 49140, "rtx-a6000"),
        ("Q RTX 6000", 24576, "quadro-rtx-6000"),
        ("Q RTX 8000", 49152, "quadro-rtx-8000"),
        ("RTX PRO 6000 WS", 97887, "rtx-pro-6000"),
        ("Tesla V100", 32768, "v100-32gb"),
        ("L4", 23034, "l4"),
        ("L40S", 46068, "l40s"),
    ],
)
def test_name_and_memory_lead_to_one_card(name: str, memory_mb: int, card: str) -> None:
    parsed = market(ask(gpu_name=name, gpu_ram=memory_mb, gpu_total_ram=2 * memory_mb, dph_base=4))
    assert {offer.gpu for offer in parsed.offers} == {card}


@pytest.mark.parametrize(
    ("place", "region"),
    [
        ("Utah, US", "US-Utah"),
        (", CA", "CA-"),
        (None, "*"),
        ("", "*"),
        ("Iceland", "Iceland"),
        ("Salt Lake City, Utah, US", "US-Salt Lake City, Utah"),
        ("Ut\x1b[31mah\n, US", "US-Ut [31mah"),
    ],
)
def test_the_region_is_country_and_city_as_printed(place: str | None, region: str) -> None:
    assert {offer.region for offer in market(ask(geolocation=place)).offers} == {region}


@pytest.mark.parametrize(
    ("cores", "effective", "memory", "vcpu", "ram"),
    [
        (64, 16.0, 262144, 16, "64.0"),
        (64, 16.8, 262144, 16, "67.2"),
        (None, None, 262144, None, None),
        (0, 0, 262144, None, None),
        (64, 0.5, 262144, None, "2.0"),
        (None, 16, 262144, 16, None),
        (64, 16, None, 16, None),
    ],
)
def test_vcpu_and_ram_are_those_of_the_slice(
    cores: object, effective: object, memory: object, vcpu: int | None, ram: str | None
) -> None:
    row = ask(cpu_cores=cores, cpu_cores_effective=effective, cpu_ram=memory)
    offer = market(row).offers[0]
    assert offer.vcpu == vcpu
    assert offer.ram_gib == (None if ram is None else Decimal(ram))


@pytest.mark.parametrize(
    ("verification", "hosting", "tier"),
    [
        ("verified", 1, Tier.SECURE),
        ("verified", 0, Tier.COMMUNITY),
        ("unverified", 1, Tier.COMMUNITY),
        ("deverified", 1, Tier.COMMUNITY),
        (None, None, Tier.COMMUNITY),
    ],
)
def test_only_a_verified_data_centre_is_secure(
    verification: str | None, hosting: int | None, tier: Tier
) -> None:
    offer = market(ask(verification=verification, hosting_type=hosting)).offers[0]
    assert offer.tier == tier
    assert (f"host {verification}" in offer.note) == (verification != "verified")


def test_doubtful_hosts_are_noted() -> None:
    offer = market(ask(reliability2=0.62, duration=7200)).offers[0]
    assert "low reliability 0.62" in offer.note
    assert "ends in 2.0 h" in offer.note


@pytest.mark.parametrize("changes", [{"rented": True}, {"rentable": False}])
def test_a_rented_ask_is_sold_out(changes: dict[str, Any]) -> None:
    assert {o.availability for o in market(ask(**changes)).offers} == {"sold_out"}


def test_unknown_traffic_prices_are_not_free() -> None:
    parsed = market(ask(inet_up_cost=None, inet_down_cost=0))
    assert {(o.egress_usd_per_gb, o.ingress_usd_per_gb) for o in parsed.offers} == {
        (None, Decimal(0))
    }
    assert [(t.region, t.destination) for t in parsed.egress] == [("machine 7", "ingress")]


def test_slices_of_one_machine_share_one_tariff_and_contradictions_give_none() -> None:
    alike = market(ask(id=1), ask(id=2))
    assert [t.destination for t in alike.egress] == ["internet", "ingress"]
    odd = market(ask(id=1), ask(id=2, inet_up_cost=0.03))
    assert (odd.egress, dict(reasons(odd)), len(odd.offers)) == ([], {"egress_conflict": 1}, 4)


def test_exactly_the_default_number_of_asks_is_a_cut_list() -> None:
    parsed = market(*(ask(id=n) for n in range(1, 65)))
    assert (parsed.offers, failures(parsed)) == ([], ["truncated_listing"])
    for count in (63, 65):
        whole = market(*(ask(id=n) for n in range(1, count + 1)))
        assert (len(whole.offers), failures(whole)) == (2 * count, [])


def test_as_many_asks_as_asked_for_are_kept_but_marked_as_cut() -> None:
    parsed = market(*(ask(id=n) for n in range(1, LIMIT + 1)))
    assert (len(parsed.offers), failures(parsed)) == (2 * LIMIT, ["truncated_listing"])


def test_an_empty_market_is_a_failure() -> None:
    assert failures(market()) == ["empty_list"]


@settings(max_examples=300)
@given(st.integers())
def test_changed_bytes_never_raise(seed: int) -> None:
    check_mutations(parse, "vastai", seed)


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
@given(st.dictionaries(st.sampled_from(sorted(ask())), _VALUES, max_size=4))
def test_any_value_in_any_field_gives_offers_that_hold_or_rejections(
    changes: dict[str, object],
) -> None:
    parsed = market(ask(**changes))
    assert parsed.offers or parsed.rejected


def test_both_searches_are_asked_with_a_limit_and_the_key_in_a_header() -> None:
    session = FakeSession(lambda name: recorded("vastai", name), vastai_api_key=KEY)
    got = [p for p in fetch(session) if isinstance(p, Payload)]
    assert [p.name for p in got] == [ON_DEMAND, BIDS]
    assert list(PROVIDER.primary([p.name for p in got])) == [ON_DEMAND, BIDS]
    for (_, url, sent, _), kind in zip(session.requests, ("on-demand", "bid"), strict=True):
        assert url == API_URL
        for part in (f'"type": "{kind}"', '"limit": 3000', '"verified": {}'):
            assert part in sent
        for part in ('"allocated_storage": 8', '[["dph_total", "asc"]]', '{"eq": true}'):
            assert part in sent
    session.assert_key_only_in_header(KEY, [ON_DEMAND, BIDS])


def test_without_a_key_no_header_is_sent() -> None:
    session = FakeSession(lambda name: recorded("vastai", name))
    assert len(list(fetch(session))) == 2
    session.assert_key_only_in_header(KEY, [])


def failing(*names: str) -> FakeSession:
    def answer(name: str) -> object:
        if name in names:
            return SourceError("HTTP 429", reason="http_429", status=429)
        return recorded("vastai", name)

    return FakeSession(answer)


def test_one_failing_search_leaves_the_other() -> None:
    first, second = fetch(failing(ON_DEMAND))
    assert isinstance(first, Failure)
    assert (first.reason, first.source_file) == ("http_429", ON_DEMAND)
    assert isinstance(second, Payload)
    assert second.name == BIDS


def test_two_failing_searches_are_a_failed_source() -> None:
    with pytest.raises(SourceError, match="429"):
        list(fetch(failing(ON_DEMAND, BIDS)))


def test_primary_files_are_the_two_searches() -> None:
    assert set(PROVIDER.primary(FILES)) == {ON_DEMAND, BIDS}


def test_the_source_is_a_marketplace_read_twice_an_hour_without_need_of_a_key() -> None:
    assert (PROVIDER.name, PROVIDER.kind) == ("vastai", "marketplace")
    assert PROVIDER.every == timedelta(minutes=30)
    assert PROVIDER.missing_key(Settings.model_validate({})) is None
