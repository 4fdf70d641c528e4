"""The assistant's tools over a session in memory: the answers of the command line, only read."""

from __future__ import annotations

import json
from typing import Any

import anyio
import pytest
from mcp import Client

from service.assistant import make_server
from service.context import Context
from service.solving import Solver
from tests.service.inside import run


def call(context: Context, solver: Solver, tool: str, arguments: dict[str, Any]) -> Any:
    async def ask() -> Any:
        async with Client(make_server(context, solver)) as client:
            return await client.call_tool(tool, arguments)

    return anyio.run(ask)


def test_there_are_three_tools_and_all_say_that_they_only_read(
    context: Context, solver: Solver
) -> None:
    async def ask() -> Any:
        async with Client(make_server(context, solver)) as client:
            return (await client.list_tools()).tools

    tools = anyio.run(ask)
    assert [tool.name for tool in tools] == ["prices", "advise", "plan"]
    for tool in tools:
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint
        assert tool.description


SAME = [
    ("prices", {"gpu": "L4", "spot": True, "limit": 5}, "prices list -g L4 --spot -n 5"),
    (
        "advise",
        {"question": {"model": "Llama-3.1-8B-Instruct", "provider": ["aws"]}},
        "advise -m Llama-3.1-8B-Instruct -p aws",
    ),
    (
        "plan",
        {"workload": {"gpu": "L4", "provider": ["aws"], "floor": 2, "ceiling": 4}},
        "plan solve -g L4 -p aws --floor 2 --ceiling 4",
    ),
]


@pytest.mark.parametrize(("tool", "arguments", "words"), SAME, ids=[tool for tool, _, _ in SAME])
def test_a_tool_says_the_same_as_the_command_line(
    context: Context, solver: Solver, tool: str, arguments: dict[str, Any], words: str
) -> None:
    result = call(context, solver, tool, arguments)
    assert not result.is_error, result.content
    printed = run(*words.split(), "--json").document
    assert result.structured_content == printed
    assert json.loads(result.content[0].text) == printed


@pytest.mark.parametrize(
    ("tool", "arguments", "said"),
    [
        ("prices", {"gpu": "H1000"}, "no such GPU; did you mean"),
        ("prices", {"limit": 101}, "less than or equal to 100"),
        ("advise", {"question": {"model": "nothing-9"}}, "is not known"),
        ("plan", {"workload": {"gpu": "L4", "profile": "/etc/passwd"}}, "profile"),
    ],
)
def test_what_was_wrong_is_told_in_words(
    context: Context, solver: Solver, tool: str, arguments: dict[str, Any], said: str
) -> None:
    result = call(context, solver, tool, arguments)
    assert result.is_error
    assert said in result.content[0].text
