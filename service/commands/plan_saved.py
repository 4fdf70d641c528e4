"""``spotfloor plan list|show|watch|remove``: plans that were kept; and the printed frontier."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.clock import iso
from core.errors import InputError
from core.money import plain
from service.commands.options import Json
from service.output import print_json, print_table, quiet_solver, say

if TYPE_CHECKING:
    from db.engine import Session
    from db.plans import SavedPlan
    from optimizer.supply import Supply
    from optimizer.workload import Workload
    from service.context import Context

PlanId = Annotated[str, typer.Argument(help="Id of a kept plan, or its first characters (4+).")]


def keep(document: dict[str, Any], house: Context) -> None:
    """Store a plan; the same plan again stays as it is."""
    from db.engine import writing
    from db.plans import save_plan

    with writing(house.database) as session:
        saved = save_plan(session, document, house.clock.now())
    say(f"kept as {saved.id}; 'spotfloor plan show {saved.id}' shows it again")


def print_frontier(workload: Workload, supply: Supply, targets: str, *, json: bool) -> None:
    """Print what each served share costs.

    Raises:
        InputError: a target is no share.
    """
    from optimizer.frontier import SCHEMA, frontier

    shares = []
    for word in targets.replace(",", " ").split():
        try:
            shares.append(float(word))
        except ValueError:
            raise InputError(f"--frontier {word!r}: no number; write e.g. 0.9,0.99,0.999") from None
    with quiet_solver():
        points = frontier(workload, supply.options, shares)
    if json:
        print_json(
            {
                "schema": SCHEMA,
                "snapshot_id": supply.snapshot_id,
                "inputs": workload.to_json(),
                "points": [point.to_json() for point in points],
            }
        )
        return
    print_table(
        [("target", "asked"), ("served", "served>"), ("usd", "USD a month>")],
        [
            {
                "target": f"{point.target:.4g}",
                "served": "" if point.served_share is None else f"{point.served_share:.3%}",
                "usd": "no fleet reaches it"
                if point.usd_per_month is None
                else f"{point.usd_per_month:,.0f}",
            }
            for point in points
        ],
    )


def register(app: typer.Typer, show_plan: Callable[[dict[str, Any]], None]) -> None:
    """Add the commands to ``spotfloor plan``.

    Args:
        show_plan: prints a plan's document for people.
    """
    from service.context import make_context

    @app.command("list")
    def list_command(
        watched: Annotated[bool, typer.Option("--watched", help="Only watched ones.")] = False,
        json: Json = False,
    ) -> None:
        """List kept plans, the newest first."""
        from db.engine import reading
        from db.plans import list_plans

        with reading(make_context().database) as session:
            found = list_plans(session, watched=watched)
        rows = [_row(plan) for plan in found]
        if json:
            print_json({"schema": "spotfloor.plans/1", "plans": rows})
        elif rows:
            print_table(
                [("plan_id", "plan"), ("name", "name"), ("usd_per_month", "USD a month>"),
                 ("created_at", "kept at"), ("watched_since", "watched since")],
                [{key: value or "" for key, value in row.items()} for row in rows],
            )  # fmt: skip
        else:
            say("no plan is kept; 'spotfloor plan solve … --save' keeps one")

    @app.command()
    def show(plan: PlanId, json: Json = False) -> None:
        """Show a kept plan as it was answered."""
        from db.engine import reading

        with reading(make_context().database) as session:
            document = dict(find_kept(session, plan).document)
        if json:
            print_json(document)
        else:
            show_plan(document)

    @app.command()
    def watch(
        plan: PlanId,
        off: Annotated[bool, typer.Option("--off", help="No longer.")] = False,
    ) -> None:
        """Watch a kept plan: the worker prices it anew daily and after price shifts.

        Rules of kind plan_cost and plan_changed tell what it finds ('alerts add --defaults').
        """
        from db.engine import writing
        from db.plans import watch_plan

        house = make_context()
        with writing(house.database) as session:
            saved = find_kept(session, plan)
            watch_plan(session, saved.id, None if off else house.clock.now())
        say(f"plan {saved.id} is {'no longer ' if off else ''}watched")

    @app.command()
    def remove(plan: PlanId) -> None:
        """Forget a kept plan."""
        from db.engine import writing
        from db.plans import delete_plan

        with writing(make_context().database) as session:
            saved = find_kept(session, plan)
            delete_plan(session, saved.id)
        say(f"plan {saved.id} is forgotten")


def find_kept(session: Session, plan: str) -> SavedPlan:
    """Return a kept plan by its id or first characters.

    Raises:
        InputError: there is none.
    """
    from db.plans import get_plan

    saved = get_plan(session, plan)
    if saved is None:
        raise InputError(f"plan {plan!r}: no kept plan has this id; 'spotfloor plan list' has them")
    return saved


def _row(plan: SavedPlan) -> dict[str, Any]:
    return {
        "plan_id": plan.id,
        "name": plan.name,
        "usd_per_month": plain(plan.usd_per_month),
        "created_at": iso(plan.created_at),
        "watched_since": None if plan.watched_since is None else iso(plan.watched_since),
    }
