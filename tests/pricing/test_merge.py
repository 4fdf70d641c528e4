from __future__ import annotations

from collections import Counter
from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from core.clock import FixedClock
from core.market import Availability, Offer, Parsed, Rejected
from db.engine import Database, reading
from db.ingest import open_prices
from db.records import RunState
from db.runs import recent_runs, rejections
from pricing.collect import collect
from pricing.collect import given as answers_of
from pricing.merge import merged
from tests.builders import a_payload, a_provider, an_offer, hour, look

OFFERS = st.builds(
    an_offer,
    instance_type=st.sampled_from("abc"),
    usd_per_hour=st.sampled_from(["2", "2.0000001", "2.0000002", "2.5"]),
    availability=st.sampled_from(Availability),
    vcpu=st.sampled_from([None, 8, 16]),
    ram_gib=st.sampled_from([None, "64", "96"]),
    note=st.sampled_from(["", "x"]),
    offer_id=st.sampled_from(["", "7", "8"]),
)


@given(data=st.data(), offers=st.lists(OFFERS, max_size=8))
def test_the_order_of_rows_never_decides(data: st.DataObject, offers: list[Offer]) -> None:
    shuffled = data.draw(st.permutations(offers))
    one, conflicts = merged(Parsed(offers=list(offers)))
    two, other_conflicts = merged(Parsed(offers=list(shuffled)))
    assert {offer.key: offer for offer in one.offers} == {o.key: o for o in two.offers}
    assert conflicts == other_conflicts
    assert Counter(one.rejected) == Counter(two.rejected)


@given(offers=st.lists(OFFERS, max_size=8))
def test_every_row_is_an_offer_a_duplicate_or_part_of_a_conflict(offers: list[Offer]) -> None:
    result, conflicts = merged(Parsed(offers=list(offers)))
    assert len({offer.key for offer in result.offers}) == len(result.offers)
    assert not conflicts & {offer.key for offer in result.offers}
    assert {offer.key for offer in offers} == conflicts | {o.key for o in result.offers}
    assert len(result.offers) + result.rejected_rows == len(offers)
    for offer in result.offers:
        assert offer in offers, "a merged offer is one that was stated, never a mixture"


def test_one_price_stated_twice_is_one_offer_and_the_fuller_row_is_kept() -> None:
    bare, full = an_offer(), an_offer(vcpu=8, availability=Availability.AVAILABLE)
    result, conflicts = merged(Parsed(offers=[full, bare]))
    assert result.offers == [full]
    assert [(item.reason, item.count) for item in result.rejected] == [("duplicate", 1)]
    assert conflicts == frozenset()


def test_two_prices_of_one_offer_are_a_conflict_and_neither_is_believed() -> None:
    pair = [an_offer(usd_per_hour="2"), an_offer(usd_per_hour="2.01")]
    result, conflicts = merged(Parsed(offers=pair))
    assert result.offers == []
    assert conflicts == {pair[0].key}
    (item,) = result.rejected
    assert (item.reason, item.count) == ("price_conflict", 2)
    assert "2, 2.01 USD/h" in item.detail


def test_a_conflict_within_one_payload_is_not_settled_by_another_payload() -> None:
    offer = an_offer(usd_per_hour="2")
    result, conflicts = merged(Parsed(offers=[offer], conflicts=[offer.key]))
    assert result.offers == []
    assert conflicts == {offer.key}
    assert [(item.reason, item.count) for item in result.rejected] == [("price_conflict", 1)]


def test_a_price_printed_with_more_digits_is_the_same_price() -> None:
    pair = [an_offer(usd_per_hour="2.0000004"), an_offer(usd_per_hour="2.0000011")]
    result, conflicts = merged(Parsed(offers=pair))
    assert (len(result.offers), conflicts) == (1, frozenset())


def test_what_was_rejected_before_stays_and_the_input_is_left_alone() -> None:
    before = Parsed(offers=[an_offer(), an_offer()], rejected=[Rejected("zero_price")])
    result, _ = merged(before)
    assert [item.reason for item in result.rejected] == ["zero_price", "duplicate"]
    assert [item.reason for item in before.rejected] == ["zero_price"]


def test_the_stored_price_stays_when_a_run_contradicts_itself(database: Database) -> None:
    look(database, hour(0), {"a": "2", "b": "3"})
    listed = [
        an_offer(instance_type=name, usd_per_hour=price, observed_at=hour(1))
        for name, price in (("a", "2.2"), ("b", "3.3"), ("a", "2.4"))
    ]
    summary = collect(
        database,
        a_provider(lambda _: Parsed(offers=listed)),
        lambda _: answers_of([a_payload(at=hour(1))]),
        FixedClock(hour(1)),
    )
    assert summary.state is RunState.OK
    with reading(database) as session:
        prices = open_prices(session, "acme", "live")
        (told,) = rejections(session, recent_runs(session)[0].id)
    assert {key.instance_type: usd for key, usd in prices.items()} == {
        "a": Decimal(2),
        "b": Decimal("3.3"),
    }
    assert (told.reason, told.count) == ("price_conflict", 2)
