from __future__ import annotations

import builtins
import logging
from collections.abc import Iterator
from typing import Any

import apprise
import pytest

from core.errors import ConfigError, InputError
from notify.channels.apprise import send
from notify.outgoing import AppriseNote
from notify.schedule import judge
from tests.notify.outboxes import T0

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # its own imports

NOTE = AppriseNote("owntest://hush", "2 alerts", "- H100 fell")


@pytest.fixture
def service() -> Iterator[list[tuple[str, str]]]:
    """A service of Apprise's that lives in this process; it takes what is not about failing."""
    taken: list[tuple[str, str]] = []

    @apprise.decorators.notify(on="owntest", name="for tests")  # type: ignore[no-untyped-call, untyped-decorator]
    def own(body: str, title: str, *_: Any, **__: Any) -> bool:
        taken.append((title, body))
        return "fail" not in title

    yield taken
    apprise.NotificationManager().remove("owntest")  # type: ignore[no-untyped-call]


def test_a_note_reaches_the_service(service: list[tuple[str, str]]) -> None:
    assert send(NOTE).status == 200
    assert service == [("2 alerts", "- H100 fell")]


def test_a_service_that_fails_is_tried_again_and_an_unknown_one_is_not(
    service: list[tuple[str, str]], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        failed = send(AppriseNote(NOTE.target, "fail", "x"))
        unknown = send(AppriseNote("nosuch://hush", "x", "x"))
    assert judge(failed, 1, T0, 0.5).state == "waiting"
    assert judge(unknown, 1, T0, 0.5).state == "dead"
    assert "hush" not in caplog.text + failed.detail + unknown.detail + repr(NOTE)


def test_its_general_webhooks_are_refused_at_sending_too() -> None:
    with pytest.raises(InputError, match="use --channel generic"):
        send(AppriseNote("json://127.0.0.1/hush", "x", "x"))


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *more: Any, **named: Any) -> Any:
        if name == "apprise":
            raise ImportError(name)
        return real(name, *more, **named)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ConfigError, match=r"pip install 'spotfloor\[apprise\]'"):
        send(NOTE)
