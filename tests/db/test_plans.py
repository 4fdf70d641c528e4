from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

from db.engine import Database, reading, writing
from db.migrate import upgrade
from db.plans import (
    Repricing,
    delete_plan,
    get_plan,
    latest_repricings,
    list_plans,
    record_repricing,
    repricings,
    save_plan,
    watch_plan,
)

NOW = datetime(2026, 12, 1, 6, tzinfo=UTC)


def document(plan_id: str, usd: str = "120.50") -> dict[str, Any]:
    return {"plan_id": plan_id, "inputs": {"name": "chat"}, "cost": {"usd_per_month": usd}}


def test_a_saved_plan_comes_back_as_it_was_and_is_found_by_its_beginning(
    database: Database,
) -> None:
    upgrade(database)
    with writing(database) as session:
        saved = save_plan(session, document("abcd1234"), NOW)
        save_plan(session, document("abce9999", "1"), NOW + timedelta(hours=1))
    assert saved.usd_per_month == Decimal("120.50")
    with reading(database) as session:
        assert get_plan(session, "abcd1234") == saved
        assert get_plan(session, "abcd") == saved
        assert get_plan(session, "abc") is None, "too short, and two plans begin so"
        assert get_plan(session, "%%%%") is None
        assert [plan.id for plan in list_plans(session)] == ["abce9999", "abcd1234"]


def test_saving_again_changes_nothing(database: Database) -> None:
    upgrade(database)
    with writing(database) as session:
        first = save_plan(session, document("abcd1234"), NOW)
        again = save_plan(session, document("abcd1234", "99"), NOW + timedelta(days=1))
    assert again == first


def test_watching_begins_and_ends(database: Database) -> None:
    upgrade(database)
    with writing(database) as session:
        save_plan(session, document("abcd1234"), NOW)
        assert watch_plan(session, "abcd1234", NOW)
        assert not watch_plan(session, "nothing", NOW)
        assert [plan.watched_since for plan in list_plans(session, watched=True)] == [NOW]
        watch_plan(session, "abcd1234", None)
        assert list_plans(session, watched=True) == []


def test_later_looks_are_kept_and_go_with_the_plan(database: Database) -> None:
    upgrade(database)
    looks = [
        Repricing("abcd1234", NOW, Decimal(130), Decimal(125), still_best=False, document={"n": 1}),
        Repricing("abcd1234", NOW + timedelta(days=1), None, None, still_best=True, document={}),
    ]
    with writing(database) as session:
        save_plan(session, document("abcd1234"), NOW)
        for look in looks:
            record_repricing(session, look)
    with reading(database) as session:
        assert repricings(session, "abcd1234") == looks[::-1]
        assert latest_repricings(session, ["abcd1234", "other"]) == {"abcd1234": looks[1]}
    with writing(database) as session:
        assert delete_plan(session, "abcd1234")
        assert not delete_plan(session, "abcd1234")
    with reading(database) as session:
        assert repricings(session, "abcd1234") == []
