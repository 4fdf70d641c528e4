"""``spotfloor plan reprice``: a plan looked at again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.commands.options import Json
from service.output import print_json, print_table, quiet_solver

if TYPE_CHECKING:
    from service.context import Context


def register(app: typer.Typer) -> None:
    """Add the command to ``spotfloor plan``."""

    @app.command()
    def reprice(
        plan: Annotated[
            str | None,
            typer.Argument(
                help="File of a plan's JSON, - for standard input, or the id of a kept plan;"
                " default the plan kept last."
            ),
        ] = None,
        json: Json = False,
    ) -> None:
        """Check a plan's receipt, price the plan now, and say whether another fleet is better."""
        from dashboard.plan_supply import repriced
        from db.engine import reading
        from service.context import make_context

        house = make_context()
        document = _document(plan, house)
        with reading(house.database) as session, quiet_solver():
            found = repriced(session, document, house.clock.now())
        if json:
            print_json(found.document)
        else:
            _print(dict(found.document))


def _document(plan: str | None, house: Context) -> Any:
    if plan == "-":
        return _read("standard input", sys.stdin.read())
    if plan is not None and Path(plan).is_file():
        try:
            return _read(plan, Path(plan).read_text("utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"{plan}: cannot read: {error}; give a plan's JSON") from None
    from db.engine import reading
    from db.plans import get_plan, list_plans

    with reading(house.database) as session:
        if plan is None:
            newest = list_plans(session, limit=1)
            if not newest:
                raise InputError(
                    "no plan is kept; give a file, or keep one: 'spotfloor plan solve … --save'"
                )
            return dict(newest[0].document)
        saved = get_plan(session, plan)
    if saved is None:
        raise InputError(
            f"plan {plan!r}: no file and no kept plan has this name; 'spotfloor plan list' has them"
        )
    return dict(saved.document)


def _read(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(
            f"{name}: no JSON: {error}; give what 'plan solve --json' prints"
        ) from None


def _print(told: dict[str, Any]) -> None:
    typer.echo(told["summary"])
    print_table(
        [
            ("place", "where"),
            ("type", "instance type"),
            ("option", "option"),
            ("then", "USD/h then>"),
            ("now", "now>"),
            ("change", "change>"),
            ("missing", ""),
        ],
        [
            {
                "place": f"{row['provider']} {row['zone'] or row['region']}",
                "type": row["instance_type"],
                "option": row["purchase_option"].replace("_", "-"),
                "then": row["usd_per_instance_hour_then"],
                "now": row["usd_per_instance_hour_now"] or "",
                "change": "" if row["change"] is None else f"{row['change']:+.1%}",
                "missing": row["missing"],
            }
            for row in told["now"]["fleet"]
        ],
    )
    made = told["reproduced"]
    lines = [
        f"receipt     {'intact' if told['receipt']['intact'] else 'NOT INTACT'}",
        f"reproduced  {_made(made)}",
    ]
    if told["best"] is not None and not told["still_best"]:
        lines.append(f"best now    {told['best']['summary']}")
        lines += [
            f"            {move['instances_max_then']} -> {move['instances_max_best']}"
            f"  {move['provider']} {move['zone'] or move['region']} {move['instance_type']}"
            f" {move['purchase_option'].replace('_', '-')}"
            for move in told["moves"]
        ]
    lines += [f"warning     {line}" for line in told["warnings"]]
    typer.echo("\n".join(lines))


def _made(made: dict[str, Any]) -> str:
    if made["same_plan"] is None:
        return made["note"] or "not tried"
    text = "the same plan" if made["same_plan"] else f"another plan; {made['note']}".rstrip("; ")
    text += f", from {made['rows']} price rows"
    if made["rows_gone"]:
        text += f"; {made['rows_gone']} of them are no longer stored"
    if made["rows_changed"]:
        text += f"; {made['rows_changed']} of them say another price in this database"
    return text
