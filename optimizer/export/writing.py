"""YAML and HCL text in which no name can break out of its string."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from core.errors import InputError


def yaml_documents(*documents: Mapping[str, Any]) -> str:
    """Write YAML, keys in the order given; strings that need quotes get them."""
    return yaml.safe_dump_all(
        documents, sort_keys=False, allow_unicode=True, default_flow_style=False, width=1000
    )


def read_yaml(text: str, what: str) -> list[Any]:
    """Read YAML documents with plain values only.

    Raises:
        InputError: it is no YAML.
    """
    try:
        return list(yaml.safe_load_all(text))
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{what}: no YAML: {reason[:200]}") from None


@dataclass(frozen=True, slots=True)
class Raw:
    """An HCL expression that is written as it is, e.g. ``var.ami_id``. Never a user's text."""

    expression: str


@dataclass(frozen=True, slots=True)
class Block:
    """An HCL block.

    Attributes:
        body: arguments by name, and nested blocks.
    """

    kind: str
    labels: tuple[str, ...]
    body: Sequence[tuple[str, object] | Block]


_TEMPLATE = re.compile(r"[$%](?=\{)")


def hcl_string(text: str) -> str:
    """Quote a string for HCL: no escape, template or line end of it takes effect."""
    escapes = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    quoted = "".join(escapes.get(c) or (c if c.isprintable() else _code_point(c)) for c in text)
    # A sign that would open a template is written by its code: "$${" is read in two ways.
    return '"' + _TEMPLATE.sub(lambda found: _code_point(found[0]), quoted) + '"'


def hcl_text(blocks: Sequence[Block]) -> str:
    """Write blocks, with an empty line between them."""
    return "\n".join(_block(block, 0) + "\n" for block in blocks)


def _block(block: Block, indent: int) -> str:
    pad = "  " * indent
    labels = "".join(f" {hcl_string(label)}" for label in block.labels)
    lines = [f"{pad}{block.kind}{labels} {{"]
    for item in block.body:
        if isinstance(item, Block):
            lines.append(_block(item, indent + 1))
        else:
            lines.append(f"{pad}  {item[0]} = {_value(item[1])}")
    lines.append(f"{pad}}}")
    return "\n".join(lines)


def _value(value: object) -> str:
    if isinstance(value, Raw):
        return value.expression
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return hcl_string(value)
    if isinstance(value, dict):
        inner = ", ".join(f"{name} = {_value(item)}" for name, item in value.items())
        return f"{{ {inner} }}"
    raise TypeError(f"no HCL for {type(value).__name__}")


def _code_point(character: str) -> str:
    code = ord(character)
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"
