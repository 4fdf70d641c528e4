from __future__ import annotations

from datetime import UTC, datetime

import pytest

from notify.message import Item, Message

AT = datetime(2026, 12, 1, 6, 4, 11, tzinfo=UTC)


def test_a_message_survives_the_outbox() -> None:
    item = Item("H100 spot", "fell to 1.84", "/prices", {"usd_per_gpu_hour": "1.84"})
    message = Message(
        "msg_1", "price.alert.firing", AT, "one alert", "fell", (item,), 3, data={"snapshot_id": 7}
    )
    assert Message.from_json(message.to_json()) == message


@pytest.mark.parametrize(
    ("field", "values"),
    [
        ("id", ("msg.1", "price.alert.firing", AT)),
        ("type", ("msg_1", "hello", AT)),
        ("at", ("msg_1", "endpoint.test", datetime(2026, 12, 1))),  # noqa: DTZ001
    ],
)
def test_what_no_receiver_could_use_is_refused(
    field: str, values: tuple[str, str, datetime]
) -> None:
    with pytest.raises(ValueError, match=f"^{field}"):
        Message(*values, "title", "summary")
