"""The flags of vLLM 0.33.0 and SGLang 0.5.23 that we use or warn about, and a check against them.

The table (``engine_flags.csv``) was read from the code of these versions. A command that passes
``check_command`` uses only flags of the table, with values of the right kind, in plain ASCII.
"""

from __future__ import annotations

import csv
import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from core.errors import InputError

VLLM_VERSION = "0.33.0"
SGLANG_VERSION = "0.5.23"

STARTS = {
    ("vllm", "serve"): ("vllm", "serve"),
    ("vllm", "bench serve"): ("vllm", "bench", "serve"),
    ("sglang", "serve"): ("sglang", "serve"),
    ("sglang", "bench_serving"): ("python", "-m", "sglang.bench_serving"),
}
"""How each tool is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One flag of a tool.

    Attributes:
        kind: ``int``, ``float``, ``str``, ``choice``, ``json`` or ``switch`` (no value).
        default: as the engine documents it; "" for automatic or none.
    """

    name: str
    kind: str
    choices: tuple[str, ...]
    default: str
    note: str


@cache
def flags(engine: str, tool: str = "serve") -> Mapping[str, Flag]:
    """Return the known flags of a tool by name.

    Raises:
        InputError: unknown engine or tool.
    """
    if (engine, tool) not in STARTS:
        known = ", ".join(f"{e} {t}" for e, t in STARTS)
        raise InputError(f"tool {engine} {tool}: not known; use one of {known}")
    text = resources.files("optimizer").joinpath("engine_flags.csv").read_text("utf-8")
    return {
        row["flag"]: Flag(
            name=row["flag"],
            kind=row["kind"],
            choices=tuple(part for part in row["choices"].split("|") if part),
            default=row["default"],
            note=row["note"],
        )
        for row in csv.DictReader(text.splitlines())
        if (row["engine"], row["tool"]) == (engine, tool)
    }


def check_command(command: str) -> tuple[str, ...]:
    """Say what is wrong with a plain command line; empty when nothing is.

    Covers the characters (dashes and quotes of word processors), the flags and their values. For
    containers give what follows the image.
    """
    if not command.isascii():
        odd = sorted({char for char in command if not char.isascii()})
        return (f"not ASCII: {' '.join(odd)}; type - and ' or \" instead",)
    try:
        words = shlex.split(command)
    except ValueError as exc:
        return (f"cannot be read by a shell: {exc}",)
    for (engine, tool), start in STARTS.items():
        if tuple(words[: len(start)]) == start:
            known = flags(engine, tool)
            return _check_words(words[len(start) :], known, f"{engine} {tool}")
    return (f"does not start like any of: {'; '.join(' '.join(s) for s in STARTS.values())}",)


def _check_words(words: Sequence[str], known: Mapping[str, Flag], tool: str) -> tuple[str, ...]:
    problems = []
    position = 0
    while position < len(words):
        word = words[position]
        position += 1
        if not word.startswith("-"):
            continue
        flag = known.get(word)
        if flag is None:
            problems.append(f"{word}: not a flag of {tool} in our table")
            continue
        if flag.kind == "switch":
            continue
        value = words[position] if position < len(words) else None
        position += 1
        if value is None or not _suits(flag, value):
            wanted = " | ".join(flag.choices) if flag.kind == "choice" else flag.kind
            problems.append(f"{word} {value}: must be {wanted}")
    return tuple(problems)


def _suits(flag: Flag, value: str) -> bool:
    if flag.kind == "choice":
        return value in flag.choices
    if flag.kind == "int":
        return value.isdigit()
    if flag.kind == "float":
        return value == "inf" or value.replace(".", "", 1).isdigit()
    if flag.kind == "json":
        try:
            return isinstance(json.loads(value), dict)
        except json.JSONDecodeError:
            return False
    return bool(value) and not value.startswith("--")
