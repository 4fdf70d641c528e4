"""AWS's spot sources: feed, history, advisor and placement scores, each trap by name."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.market import PurchaseOption
from pricing.providers.aws import parse
from tests.pricing.acceptance import failures, made, reasons, recorded
from tests.pricing.aws_rows import (
    HISTORY,
    LIST,
    listing,
)


def feed(*regions: tuple[str, dict[str, object]]) -> bytes:
    return json.dumps(
        {
            "config": {
                "rate": "perhr",
                "regions": [
                    {
                        "region": region,
                        "instanceTypes": [
                            {
                                "type": "any",
                                "sizes": [
                                    {
                                        "size": name,
                                        "valueColumns": [
                                            {"name": "mswin", "prices": {"USD": "99"}},
                                            {"name": "linux", "prices": {"USD": price}},
                                        ],
                                    }
                                    for name, price in sizes.items()
                                ],
                            }
                        ],
                    }
                    for region, sizes in regions
                ],
            }
        }
    ).encode()


def test_a15_the_feed_says_unknown_in_two_ways_and_neither_is_free() -> None:
    body = feed(
        (
            "us-east-1",
            {
                "p5.48xlarge": "21.4937",
                "p5en.48xlarge": "N/A*",
                "p6-b200.48xlarge": "0.0000",
                "p9.48xlarge": "3.0",
                "trn1.32xlarge": "4.5150",
                "m5.xlarge": "0.0798",
            },
        )
    )
    parsed = parse([made(body, "spot.json")])
    (offer,) = parsed.offers
    assert (offer.instance_type, offer.zone, offer.usd_per_hour) == (
        "p5.48xlarge",
        "",
        Decimal("21.4937"),
    )
    assert offer.purchase_option is PurchaseOption.SPOT
    assert reasons(parsed) == {
        "no_price": 1,
        "zero_price": 1,
        "unknown_instance_type": 1,
        "not_gpu": 2,
    }


def test_a15_region_nicknames_and_local_zones_are_no_regions() -> None:
    one: dict[str, object] = {"g5.2xlarge": "0.5"}
    parsed = parse(
        [made(feed(("us-east", one), ("apac-tokyo", one), ("us-west-2-lax-1a", one)), "spot.json")]
    )
    assert parsed.offers == []
    assert reasons(parsed) == {"unknown_region": 2, "local_zone": 1}
    assert failures(parsed) == ["no_offers"]


def test_the_feed_that_states_one_type_twice_is_in_conflict() -> None:
    body = feed(("us-east-1", {"g5.2xlarge": "0.5"}), ("us-east-1", {"g5.2xlarge": "0.9"}))
    parsed = parse([made(body, "spot.json")])
    assert parsed.offers == []
    assert reasons(parsed) == {"price_conflict": 2}


@pytest.mark.shared
def test_the_frozen_feed_is_refused() -> None:
    parsed = parse([recorded("aws", "legacy_spot.js")])
    assert parsed.offers == []
    assert failures(parsed) == ["frozen_feed"]


Point = tuple[str, str, str]
"""Zone id, price, time of day."""


def history(*points: Point, **more: str) -> bytes:
    return json.dumps(
        {
            "SpotPriceHistory": [
                {
                    "AvailabilityZone": "us-east-1a",
                    "AvailabilityZoneId": zone,
                    "InstanceType": "p4d.24xlarge",
                    "ProductDescription": "Linux/UNIX",
                    "SpotPrice": price,
                    "Timestamp": f"2026-09-20T{at}:00+00:00",
                }
                | more
                for zone, price, at in points
            ],
            "NextToken": "",
        }
    ).encode()


def test_a16_a_spot_price_at_or_above_on_demand_is_kept_as_printed() -> None:
    parsed = parse(
        [
            made(history(("use1-az2", "27.433000", "10:00")), HISTORY),
            made(listing({"Instance Type": "p4d.24xlarge", "PricePerUnit": "27.4329800000"}), LIST),
        ]
    )
    assert {(o.purchase_option.value, o.usd_per_hour) for o in parsed.offers} == {
        ("on_demand", Decimal("27.43298")),
        ("spot", Decimal("27.433")),
    }


@given(st.permutations([("z1", "7.8", "11:16"), ("z1", "7.9", "09:00"), ("z2", "8.1", "01:00")]))
def test_a17_the_newest_point_of_a_zone_wins_in_any_order(points: list[Point]) -> None:
    parsed = parse([made(history(*points), HISTORY)])
    assert {(o.zone, o.usd_per_hour) for o in parsed.offers} == {
        ("z1", Decimal("7.8")),
        ("z2", Decimal("8.1")),
    }
    assert reasons(parsed) == {"older_point": 1}


@given(st.permutations([("z1", "7.8", "11:16"), ("z1", "7.9", "11:16"), ("z1", "7.7", "01:00")]))
def test_a17_two_prices_at_one_time_are_a_conflict_in_any_order(points: list[Point]) -> None:
    parsed = parse([made(history(*points), HISTORY)])
    assert parsed.offers == []
    assert reasons(parsed) == {"price_conflict": 2, "older_point": 1}


def test_a17_the_newest_point_wins_across_pages() -> None:
    one = made(history(("z1", "7.8", "09:00")), HISTORY)
    two = made(history(("z1", "7.9", "11:00")), "describe_spot_price_history_us-east-1_p2.json")
    for pages in ([one, two], [two, one]):
        parsed = parse(pages)
        assert [(o.zone, o.usd_per_hour) for o in parsed.offers] == [("z1", Decimal("7.9"))]


@pytest.mark.shared
def test_a18_the_zone_id_is_the_zone_and_a_name_only_where_there_is_no_id() -> None:
    by_id = parse([recorded("aws", HISTORY)])
    assert {o.zone for o in by_id.offers} == {"use1-az1", "use1-az2", "use1-az4", "use1-az6"}
    by_name = parse([recorded("aws", HISTORY.replace(".json", ".xml"))])
    assert {(o.region, o.zone, o.instance_type, o.usd_per_hour) for o in by_name.offers} == {
        ("us-east-1", "us-east-1a", "p4d.24xlarge", Decimal("2.4655")),
        ("us-east-1", "us-east-1b", "p4d.24xlarge", Decimal("8.1915")),
        ("us-east-1", "us-east-1c", "p4d.24xlarge", Decimal("8.1203")),
    }
    assert by_name.failures == []


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"ProductDescription": "Windows"}, "operating_system"),
        ({"ProductDescription": "SUSE Linux"}, "operating_system"),
        ({"ProductDescription": "Linux/UNIX (Amazon VPC)"}, "operating_system"),
        ({"SpotPrice": "0.000000"}, "zero_price"),
        ({"SpotPrice": "soon"}, "bad_number"),
        ({"AvailabilityZone": "eu-west-1a"}, "region_mismatch"),
        ({"AvailabilityZone": "us-east-1-atl-2a"}, "local_zone"),
        ({"InstanceType": "p9.48xlarge"}, "unknown_instance_type"),
        ({"InstanceType": "m5.xlarge"}, "not_gpu"),
        ({"Timestamp": "yesterday"}, "bad_value"),
        ({"Timestamp": "2026-09-20T10:00:00"}, "bad_value"),
    ],
)
def test_a_point_that_is_no_linux_spot_price_says_why(change: dict[str, str], reason: str) -> None:
    parsed = parse([made(history(("use1-az1", "7.8", "10:00"), **change), HISTORY)])
    assert parsed.offers == []
    assert reasons(parsed) == {reason: 1}
    assert failures(parsed) == ["no_offers"]


def test_an_xml_entity_is_not_resolved_and_reads_no_file(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("7.77")
    body = (
        f'<!DOCTYPE a [<!ENTITY x SYSTEM "file://{secret}"><!ENTITY y "7.77">]>'
        "<DescribeSpotPriceHistoryResponse><spotPriceHistorySet>"
        + "".join(
            "<item><availabilityZone>us-east-1a</availabilityZone>"
            "<instanceType>p4d.24xlarge</instanceType>"
            "<productDescription>Linux/UNIX</productDescription>"
            f"<spotPrice>&{name};</spotPrice><timestamp>2026-09-20T10:00:00Z</timestamp></item>"
            for name in "xy"
        )
        + "</spotPriceHistorySet></DescribeSpotPriceHistoryResponse>"
    )
    parsed = parse([made(body.encode(), HISTORY.replace(".json", ".xml"))])
    assert parsed.offers == []
    assert "7.77" not in str(parsed)


def test_an_api_error_document_names_its_code() -> None:
    body = b"<Response><Errors><Error><Code>AuthFailure</Code></Error></Errors></Response>"
    parsed = parse([made(body, HISTORY.replace(".json", ".xml"))])
    assert [(f.reason, f.detail) for f in parsed.failures] == [("api_error", "AuthFailure")]


@pytest.mark.shared
def test_interruption_bands_are_linux_shares_read_from_the_labels() -> None:
    parsed = parse([recorded("aws", "spot-advisor-data.json")])
    found = {(o.region, o.instance_type): (o.low, o.high) for o in parsed.observations}
    assert found["us-east-1", "p5.48xlarge"] == (Decimal("0.2"), Decimal(1))
    assert found["us-east-1", "p5en.48xlarge"] == (Decimal(0), Decimal("0.05"))
    assert found["us-east-1", "p4d.24xlarge"] == (Decimal("0.1"), Decimal("0.15"))
    assert found["us-west-2", "p5.48xlarge"] == (Decimal("0.05"), Decimal("0.1"))
    assert found["us-east-1", "g4dn.xlarge"] == (Decimal("0.15"), Decimal("0.2"))
    assert not any(name in {"p5e.48xlarge", "m5.xlarge"} for _, name in found)
    assert len(found) == len(parsed.observations) == 13
    assert {(o.kind, o.base) for o in parsed.observations} == {
        ("interruption_band", "trailing month")
    }
    assert parsed.offers == []


@pytest.mark.parametrize("index", [-1, 5, 6, "1", None, True, 1.5])
def test_a_band_index_beyond_the_ranges_is_unknown_not_the_last_band(index: object) -> None:
    labels = ["<5%", "5-10%", "10-15%", "15-20%", ">20%"]
    body = {
        "ranges": [{"index": i, "label": label} for i, label in enumerate(labels)],
        "spot_advisor": {"us-east-1": {"Linux": {"p5.48xlarge": {"s": 1, "r": index}}}},
    }
    parsed = parse([made(body, "spot-advisor-data.json")])
    assert parsed.observations == []
    assert reasons(parsed) == {"bad_value": 1}


@pytest.mark.parametrize("label", ["often", "", None, ">200%", "20-10%"])
def test_a_range_without_a_readable_label_fails_the_whole_advisor(label: object) -> None:
    body = {"ranges": [{"index": 0, "label": label}], "spot_advisor": {}}
    assert failures(parse([made(body, "spot-advisor-data.json")])) == ["bad_shape"]


@pytest.mark.shared
def test_placement_scores_are_observations_of_a_zone_id() -> None:
    parsed = parse([recorded("aws", "get_spot_placement_scores.json")])
    assert [(o.region, o.zone, int(o.low), int(o.high)) for o in parsed.observations] == [
        ("us-east-1", "use1-az2", 3, 3),
        ("us-east-1", "use1-az6", 1, 1),
        ("us-east-2", "use2-az1", 6, 6),
        ("us-west-2", "usw2-az2", 9, 9),
    ]
    assert {o.kind for o in parsed.observations} == {"placement_score"}
    assert parsed.offers == []
