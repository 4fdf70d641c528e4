from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal

from core.egress import bill
from core.market import EgressTariff, Parsed
from db.egress import StoredTariff, tariffs
from db.engine import Database, reading
from tests.builders import T0, a_report, a_tariff, facts, hour, write


def put(database: Database, at: datetime, *listed: EgressTariff, origin: str = "live") -> None:
    write(
        database,
        a_report(at=at, origin=origin, parsed=Parsed(egress=list(listed)), closing=False),
    )


def stored(database: Database, *, history: bool = True) -> list[StoredTariff]:
    with reading(database) as session:
        return tariffs(session, history=history)


def test_an_unchanged_ladder_keeps_its_span(database: Database) -> None:
    ladder = (("0", "0.09"), ("10240", "0.085"), ("51200", "0.07"))
    for at in (0, 1, 2):
        put(database, hour(at), a_tariff(*ladder, free="100", observed_at=hour(at)))
    (only,) = stored(database)
    assert (only.valid_from, only.valid_to, only.last_seen) == (hour(0), None, hour(2))
    assert only.tariff == a_tariff(*ladder, free="100", observed_at=hour(2))


def test_a_change_of_price_step_allowance_or_unit_opens_a_span(database: Database) -> None:
    versions = [
        a_tariff(("0", "0.09"), ("100", "0.08"), observed_at=hour(0)),
        a_tariff(("0", "0.09"), ("100", "0.07"), observed_at=hour(1)),
        a_tariff(("0", "0.09"), ("200", "0.07"), observed_at=hour(2)),
        a_tariff(("0", "0.09"), observed_at=hour(3)),
        a_tariff(("0", "0.09"), free="100", observed_at=hour(4)),
        a_tariff(("0", "0.09"), free="100", unit="GiB", observed_at=hour(5)),
    ]
    for version in versions:
        put(database, version.observed_at, version)
    found = stored(database)
    assert [item.tariff for item in found] == versions
    assert [item.valid_to for item in found] == [*(hour(at) for at in range(1, 6)), None]
    (now,) = stored(database, history=False)
    assert now.tariff == versions[-1]


def test_a_price_with_more_digits_than_are_kept_is_no_change(database: Database) -> None:
    third = a_tariff(("0", "0.0833333333333333333"), ("341.33333333", "0.01"), free="0.0009765625")
    put(database, hour(0), third)
    put(database, hour(1), replace(third, observed_at=hour(1)))
    (only,) = stored(database)
    assert (only.valid_from, only.last_seen) == (hour(0), hour(1))


def test_a_price_that_is_not_stated_stays_unknown_and_is_not_a_change(database: Database) -> None:
    tariff = a_tariff(("0", "0.09"), ("10240", None))
    put(database, hour(0), tariff)
    put(database, hour(0.5), replace(tariff, observed_at=hour(0.5)))
    (only,) = stored(database)
    assert [tier.usd_per_gb for tier in only.tariff.tiers] == [Decimal("0.09"), None]
    assert bill(only.tariff, Decimal(20_000)).usd is None
    put(database, hour(1), a_tariff(("0", "0.09"), ("10240", "0"), observed_at=hour(1)))
    assert len(stored(database)) == 2, "unknown and free differ"


def test_an_older_tariff_changes_nothing(database: Database) -> None:
    put(database, hour(2), a_tariff(("0", "0.09"), observed_at=hour(2)))
    put(database, hour(1), a_tariff(("0", "0.5"), observed_at=hour(1)))
    (only,) = stored(database)
    assert only.tariff.tiers[0].usd_per_gb == Decimal("0.09")


def test_the_same_look_read_again_with_another_result_is_corrected(database: Database) -> None:
    put(database, hour(0), a_tariff(("0", "0.9")))
    put(database, hour(0), a_tariff(("0", "0.09"), ("100", "0.08")))
    (only,) = stored(database)
    assert [tier.usd_per_gb for tier in only.tariff.tiers] == [Decimal("0.09"), Decimal("0.08")]
    assert (only.valid_from, only.valid_to) == (T0, None)


def test_each_host_region_destination_and_origin_has_its_own_tariff(database: Database) -> None:
    hosts = [
        a_tariff(("0", price), region=f"machine {number}", destination=destination)
        for number, destination, price in (
            (1, "internet", "0.01"),
            (2, "internet", "0.02"),
            (1, "ingress", "0"),
        )
    ]
    put(database, T0, *hosts)
    put(database, T0, a_tariff(("0", "0.5"), region="machine 1"), origin="snapshot")
    assert len(stored(database)) == 4
    with reading(database) as session:
        first = tariffs(session, regions=["machine 1"], origin="live")
        other = tariffs(session, providers=["nobody"])
    assert [(t.tariff.destination, t.tariff.tiers[0].usd_per_gb) for t in first] == [
        ("ingress", Decimal(0)),
        ("internet", Decimal("0.01")),
    ]
    assert other == []


def test_a_tariff_for_everywhere_answers_for_each_region(database: Database) -> None:
    put(database, T0, a_tariff(region="*"), a_tariff(region="eu"), a_tariff(region="us"))
    with reading(database) as session:
        found = tariffs(session, regions=["eu"])
    assert [item.tariff.region for item in found] == ["*", "eu"]


def test_of_two_tariffs_for_one_key_in_one_run_the_newer_counts(database: Database) -> None:
    newer = a_tariff(("0", "0.02"), observed_at=hour(1))
    put(database, hour(1), newer, a_tariff(("0", "0.01"), observed_at=hour(0)))
    (only,) = stored(database)
    assert only.tariff == newer


def test_more_tariffs_than_fit_one_question_come_back_whole(sqlite: Database) -> None:
    many = [
        a_tariff(("0", "0.01"), ("10", str(number)), region=f"machine {number:04}")
        for number in range(1, 10)
    ] + [
        a_tariff(("0", "0.01"), ("10", "0.5"), region=f"machine {number:04}")
        for number in range(10, 1201)
    ]
    write(sqlite, a_report(at=T0, parsed=Parsed(egress=many), source=facts(kind="marketplace")))
    assert [item.tariff for item in stored(sqlite)] == many
