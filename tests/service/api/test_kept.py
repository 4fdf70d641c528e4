from __future__ import annotations

import threading

from fastapi.testclient import TestClient

from service.api.kept import Kept


def test_a_thing_is_kept_for_a_minute_and_the_oldest_makes_room() -> None:
    now = [0.0]
    kept: Kept[str] = Kept(12, len, clock=lambda: now[0])
    kept.put("a", "xxx")
    kept.put("heavy", "xxxx")  # more than a quarter of 12 would push out all others
    assert (kept.get("a"), kept.get("heavy"), kept.get("none")) == ("xxx", None, None)
    now[0] = 59.9
    assert kept.get("a") == "xxx"
    now[0] = 60.0
    assert kept.get("a") is None
    for name in "bcde":
        kept.put(name, name * 3)
    kept.put("e", "eee")  # again: its weight counts once
    assert [kept.get(name) for name in "abcde"] == [None, "bbb", "ccc", "ddd", "eee"]


def test_of_many_who_ask_at_once_one_makes_it() -> None:
    kept: Kept[str] = Kept(100)
    inside, made, got = threading.Event(), [], []

    def make() -> str:
        made.append(1)
        inside.wait(30)
        return "x"

    askers = [threading.Thread(target=lambda: got.append(kept.of("a", make))) for _ in range(5)]
    for asker in askers:
        asker.start()
    inside.set()
    for asker in askers:
        asker.join()
    assert (made, got) == ([1], ["x"] * 5)


def test_a_kept_answer_is_the_same_answer_with_its_headers(client: TestClient) -> None:
    first, second = (client.get("/v1/offers?gpu=L4&limit=2") for _ in range(2))
    assert first.content == second.content
    assert dict(first.headers) == dict(second.headers)
    assert len(client.app.state.house.answers_kept._things) == 1  # type: ignore[attr-defined]
    csv = client.get("/v1/offers?gpu=L4&limit=2", headers={"Accept": "text/csv"})
    assert csv.headers["content-type"].startswith("text/csv"), "another form, another answer"
