"""Fleet plans in the languages of other tools. Pure: an answer in, text and notes out.

Each target writes what it can express and says in notes what it cannot; what it cannot express at
all it refuses, with the reason and what to do instead. Every text is read back and held against the
target's own rules before it leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from core.errors import InputError
from optimizer.export import dstack, karpenter, skyserve, tables, terraform
from optimizer.export.answer import Draft, Fleet, read_answer

__all__ = ["FORMATS", "Choice", "Export", "Format", "choices", "export_plan"]


@dataclass(frozen=True, slots=True)
class Format:
    """A language that plans are written in.

    Attributes:
        name: what ``--format`` takes.
        title: for people.
        ending: of the file's name, after the plan's.
    """

    name: str
    title: str
    ending: str
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Export:
    """A plan in another tool's language.

    Attributes:
        filename: name to save it under; only a-z, 0-9, dash and dot.
        notes: what the target cannot express, and what is left to do by hand.
    """

    format: Format
    text: str
    filename: str
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """What one format makes of a plan.

    Attributes:
        export: None where the format cannot express the plan.
        refused: why not, and what to do instead; "" where it can.
    """

    format: Format
    export: Export | None
    refused: str = ""


_YAML = "application/yaml"

FORMATS: tuple[Format, ...] = (
    Format("skyserve", "SkyServe service (SkyPilot)", "sky.yaml", _YAML),
    Format("dstack", "dstack service", "dstack.yml", _YAML),
    Format("karpenter", "Karpenter NodePools (AWS)", "nodepools.yaml", _YAML),
    Format("terraform", "Terraform Auto Scaling group (AWS)", "tf", "text/plain"),
    Format("csv", "CSV, a line for each pool", "csv", "text/csv"),
    Format("csv-hourly", "CSV, a line for each hour and pool", "hours.csv", "text/csv"),
    Format("json", "JSON, the plan as it is", "plan.json", "application/json"),
)
"""All formats, in the order in which they are shown."""

_WRITERS: dict[str, Callable[[Fleet], Draft]] = {
    "skyserve": skyserve.render,
    "dstack": dstack.render,
    "karpenter": karpenter.render,
    "terraform": terraform.render,
    "csv": tables.fleet_csv,
    "csv-hourly": tables.hourly_csv,
}
_CHECKS: dict[str, Callable[[str], object]] = {
    "skyserve": skyserve.check,
    "dstack": dstack.check,
    "karpenter": karpenter.check,
}


def export_plan(answer: Mapping[str, Any], name: str) -> Export:
    """Write a plan in one format.

    Args:
        answer: the JSON contract ``spotfloor.plan/1``.
        name: name of one of ``FORMATS``.

    Raises:
        InputError: the format is unknown, the answer is no plan, or the format cannot express it.
    """
    for item in FORMATS:
        if item.name == name:
            return _written(item, answer, read_answer(answer))
    names = ", ".join(item.name for item in FORMATS)
    raise InputError(f"format {name[:60]!r}: write one of {names}")


def choices(answer: Mapping[str, Any]) -> tuple[Choice, ...]:
    """Write a plan in every format, or say why one cannot express it; in the order of ``FORMATS``.

    Raises:
        InputError: the answer is no plan.
    """
    fleet = read_answer(answer)
    return tuple(_choice(item, answer, fleet) for item in FORMATS)


def _choice(item: Format, answer: Mapping[str, Any], fleet: Fleet) -> Choice:
    try:
        return Choice(format=item, export=_written(item, answer, fleet))
    except InputError as error:
        return Choice(format=item, export=None, refused=str(error))


def _written(item: Format, answer: Mapping[str, Any], fleet: Fleet) -> Export:
    writer = _WRITERS.get(item.name)
    draft = tables.answer_json(answer) if writer is None else writer(fleet)
    if item.name in _CHECKS:
        _CHECKS[item.name](draft.text)
    return Export(
        format=item,
        text=draft.text,
        filename=f"{fleet.slug}.{item.ending}",
        notes=draft.notes,
    )
