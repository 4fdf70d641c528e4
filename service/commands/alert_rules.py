"""``spotfloor alerts add|list|show|test|silence|remove|events``: rules and what they said."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.commands.options import Json, ProviderNames, provider_names, read_instant
from service.commands.selection import Gpu, Options, Region, Spot
from service.output import print_json, print_table, say

if TYPE_CHECKING:
    from db.alerts import StoredEvent, StoredRule
    from db.engine import Session
    from notify.watching import Watched

Name = Annotated[str, typer.Argument(help="The rule's name or id.")]
EndpointNames = Annotated[
    list[str] | None,
    typer.Option("--endpoint", "-e", help="Who is told; repeatable; all = every one that is on."),
]


def add(
    name: Annotated[str | None, typer.Argument(help="A name of your choice.")] = None,
    kind: Annotated[
        str | None,
        typer.Option(
            "--kind",
            "-k",
            help="price_below, price_above, price_change, spread, availability, new_offer,"
            " provider_stale, plan_cost or plan_changed.",
        ),
    ] = None,
    threshold: Annotated[
        str | None, typer.Option("--threshold", "-t", help="USD per GPU-hour.")
    ] = None,
    percent: Annotated[str | None, typer.Option(help="Least change in percent …")] = None,
    usd: Annotated[
        str | None, typer.Option(help="… and least change in USD; both must be passed.")
    ] = None,
    gpu: Gpu = None,
    provider: ProviderNames = None,
    region: Region = None,
    spot: Spot = None,
    option: Options = None,
    per_provider: Annotated[
        bool, typer.Option("--per-provider", help="One series for each provider.")
    ] = False,
    per_region: Annotated[
        bool, typer.Option("--per-region", help="One series for each provider and region.")
    ] = False,
    statistic: Annotated[str | None, typer.Option(help="min, median or p25.")] = None,
    direction: Annotated[
        str | None, typer.Option(help="both, up or down; appears or disappears.")
    ] = None,
    baseline: Annotated[
        str | None, typer.Option(help="Changes since: told (last), week or day (start).")
    ] = None,
    hours: Annotated[str | None, typer.Option(help="Age at which a provider is stale.")] = None,
    plan: Annotated[str | None, typer.Option(help="A saved plan; default all watched.")] = None,
    min_offers: Annotated[int | None, typer.Option(help="Fewer offers say nothing.")] = None,
    confirm: Annotated[int | None, typer.Option(help="Looks that must agree.")] = None,
    cooldown: Annotated[
        str | None, typer.Option(help="No second alert of a series within: 24h, 7d.")
    ] = None,
    at_once: Annotated[
        bool, typer.Option("--at-once", help="Tell what is true already, too.")
    ] = False,
    endpoint: EndpointNames = None,
    defaults: Annotated[
        bool, typer.Option("--defaults", help="Add the default rules instead of one.")
    ] = False,
    json: Json = False,
) -> None:
    """Add a rule, or with --defaults the rules that suit most.

    What is true already when a rule is added is not told, unless --at-once is given.
    """
    from db.alerts import add_rule
    from db.engine import writing
    from notify.rules import MARKETS, Rule, default_rules
    from service.commands.selection import selection_of
    from service.context import make_context

    if defaults and (name or kind):
        raise InputError("--defaults: adds rules of its own; leave name and --kind out")
    if not defaults and not (name and kind):
        raise InputError("name and --kind: a rule needs both; or add the usual ones: --defaults")
    context = make_context()
    with writing(context.database) as session:
        to = _endpoint_ids(session, endpoint)
        if defaults:
            rules = default_rules(to)
        else:
            markets = selection_of(None, None, None, spot, option=option).purchase_options
            found = _plan_id(session, plan)
            document = {
                "name": name,
                "kind": kind,
                "gpu": gpu,
                "providers": provider_names(provider),
                "regions": region or (),
                "markets": [market for market in MARKETS if market in markets],
                "per_provider": per_provider,
                "per_region": per_region,
                "statistic": statistic,
                "threshold": threshold,
                "percent": percent,
                "usd": usd,
                "direction": direction,
                "baseline": baseline,
                "hours": hours,
                "plan": found,
                "min_offers": min_offers,
                "confirm": confirm,
                "keep": confirm,
                "cooldown_hours": _hours("--cooldown", cooldown),
                "on_create": "evaluate" if at_once else None,
                "endpoints": to,
            }
            rules = [Rule.of_document(document)]
        now = context.clock.now()
        stored = [add_rule(session, rule.document(), now) for rule in rules]
    if json:
        _print_rules(stored, {})
        return
    for item in stored:
        say(f"rule {item.name} ({item.kind}) added; what it sees: spotfloor alerts test {item.id}")
    if not to:
        say("it tells nobody: events are kept, and no endpoint is named (--endpoint)")
    if not at_once:
        say("what is true already is not told; a worker evaluates rules after each snapshot")


def list_command(json: Json = False) -> None:
    """List the rules and how many of their series are firing."""
    from db.alert_states import phases
    from db.alerts import list_rules
    from db.engine import reading
    from service.context import make_context

    context = make_context()
    with reading(context.database) as session:
        rules, counts = list_rules(session), phases(session)
    if json:
        _print_rules(rules, counts)
        return
    print_table(
        [
            ("name", "rule"),
            ("kind", "kind"),
            ("firing", "firing>"),
            ("pending", "pending>"),
            ("series", "series>"),
            ("silenced_until", "silent until"),
            ("evaluated_at", "evaluated"),
        ],
        [_rule_shape(rule, counts) for rule in rules],
    )


def show(name: Name, json: Json = False) -> None:
    """Show a rule with all that it left to defaults."""
    from db.alert_states import phases
    from db.alerts import find_rule
    from db.engine import reading
    from service.context import make_context

    context = make_context()
    with reading(context.database) as session:
        rule, counts = find_rule(session, name), phases(session)
    if json:
        _print_rules([rule], counts)
        return
    shape = _rule_shape(rule, counts)
    rows = [(key, value) for key, value in shape.items() if key != "document"]
    rows += [(key, value) for key, value in rule.document.items() if key not in shape]
    print_table(
        [("key", "field"), ("value", "value")],
        [{"key": key, "value": _words(value)} for key, value in rows],
    )


def try_command(name: Name, json: Json = False) -> None:
    """Show what a rule sees and would say now; nothing is stored or sent."""
    from db.alerts import find_rule
    from db.engine import reading
    from notify.alerting import try_rule
    from service.context import make_context

    context = make_context()
    now = context.clock.now()
    with reading(context.database) as session:
        rule = find_rule(session, name)
        rows = [_tried(rule, item) for item in try_rule(session, rule, now)]
    if json:
        print_json(
            {"schema": "spotfloor.alert-test/1", "rule": rule.name, "at": now, "series": rows}
        )
        return
    if not rows:
        say("no live offer, source or watched plan fits this rule now")
    print_table(
        [
            ("title", "series"),
            ("verdict", "verdict"),
            ("phase", "state after"),
            ("value", "value>"),
            ("previous", "compared with>"),
            ("offers", "offers>"),
            ("would_say", "would say"),
        ],
        rows,
    )


def silence(
    name: Name,
    duration: Annotated[
        str, typer.Option("--for", help="How long: 30m, 8h, 7d; 0 ends the silence.")
    ] = "24h",
    json: Json = False,
) -> None:
    """Let a rule be silent for a while. What still holds afterwards is told then."""
    from db.alerts import find_rule, silence_rule
    from db.engine import writing
    from service.context import make_context

    hours = _hours("--for", duration) or Decimal(0)
    context = make_context()
    now = context.clock.now()
    until = now + timedelta(hours=float(hours)) if hours else None
    with writing(context.database) as session:
        rule = find_rule(session, name)
        silence_rule(session, rule.id, until)
        rule = find_rule(session, rule.id)
    if json:
        _print_rules([rule], {})
    elif until is None:
        say(f"rule {rule.name} speaks again")
    else:
        say(f"rule {rule.name} is silent until {until:%Y-%m-%d %H:%M} UTC")


def remove(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove a rule with its states and events."""
    from db.alerts import delete_rule, find_rule
    from db.engine import reading, writing
    from service.context import make_context

    context = make_context()
    with reading(context.database) as session:
        rule = find_rule(session, name)
    if not yes and not typer.confirm(f"Remove rule {rule.name} and its history?", err=True):
        raise typer.Exit(2)
    with writing(context.database) as session:
        delete_rule(session, rule.id)
    if json:
        _print_rules([], {})
    else:
        say(f"rule {rule.name} removed")


def events(
    rule: Annotated[str | None, typer.Option("--rule", help="Only of this rule.")] = None,
    since: Annotated[str | None, typer.Option("--since", help="Only from this instant on.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=10_000, help="At most so many.")] = 50,
    json: Json = False,
) -> None:
    """List what the rules said, newest first; also what was not sent because of a silence."""
    from db.alerts import find_rule, list_events, list_rules
    from db.engine import reading
    from service.context import make_context

    start = read_instant("--since", since)
    context = make_context()
    with reading(context.database) as session:
        rule_id = find_rule(session, rule).id if rule else None
        names = {item.id: item.name for item in list_rules(session)}
        found = list_events(session, rule_id=rule_id, since=start, limit=limit)
    rows = [_event_shape(item, names) for item in found]
    if json:
        print_json({"schema": "spotfloor.alert-events/1", "events": rows})
        return
    print_table(
        [
            ("at", "at"),
            ("rule", "rule"),
            ("event", "event"),
            ("text", "what"),
            ("message", "message"),
        ],
        rows,
    )


def _endpoint_ids(session: Session, names: Sequence[str] | None) -> tuple[str, ...]:
    from db.endpoints import find_endpoint
    from notify.rules import EVERYBODY

    return tuple(
        dict.fromkeys(
            name if name == EVERYBODY else find_endpoint(session, name).id for name in names or ()
        )
    )


def _plan_id(session: Session, plan: str | None) -> str | None:
    from db.plans import get_plan

    if plan is None:
        return None
    found = get_plan(session, plan)
    if found is None:
        raise InputError(f"--plan {plan}: there is no such saved plan; see 'spotfloor plan --help'")
    return found.id


def _hours(name: str, text: str | None) -> Decimal | None:
    if text is None:
        return None
    found = re.fullmatch(r"(\d{1,5})([mhd]?)", text.strip())
    if found is None or (not found[2] and found[1] != "0"):
        raise InputError(f"{name} {text}: write a time like 30m, 24h or 7d, or 0")
    return Decimal(found[1]) * {"m": Decimal(1) / 60, "d": Decimal(24)}.get(found[2], Decimal(1))


def _rule_shape(rule: StoredRule, counts: dict[tuple[str, str], int]) -> dict[str, Any]:
    from notify.state import Phase

    of = {phase.value: counts.get((rule.id, phase.value), 0) for phase in Phase}
    return {
        "id": rule.id,
        "name": rule.name,
        "kind": rule.kind,
        "series": sum(of.values()),
        "firing": of["firing"] + of["recovering"],
        "pending": of["pending"],
        "silenced_until": rule.silenced_until,
        "created_at": rule.created_at,
        "evaluated_at": rule.evaluated_at,
        "document": dict(rule.document),
    }


def _print_rules(rules: Sequence[StoredRule], counts: dict[tuple[str, str], int]) -> None:
    rows = [_rule_shape(rule, counts) for rule in rules]
    print_json({"schema": "spotfloor.alert-rules/1", "rules": rows})


def _tried(rule: StoredRule, item: Watched) -> dict[str, Any]:
    from notify.alert_words import said, title_of, unit_of

    words = said(rule.id, item, 0)
    return {
        "series": item.series,
        "title": title_of(item),
        "verdict": item.measured.verdict.value,
        "phase": item.state.phase.value,
        "value": _six(item.measured.value),
        "unit": unit_of(item.rule.kind),
        "previous": _six(item.measured.before),
        "offers": item.measured.offers,
        "would_say": words.item.text if words else None,
    }


def _event_shape(item: StoredEvent, names: dict[str, str]) -> dict[str, Any]:
    document = item.document
    return {
        "at": item.at,
        "rule": names.get(item.rule_id, item.rule_id),
        "series": item.series,
        "event": item.event,
        "reason": document.get("reason", ""),
        "text": document.get("text", ""),
        "told": bool(document.get("told", True)),
        "value": document.get("value"),
        "unit": document.get("unit"),
        "previous": (document.get("previous") or {}).get("value"),
        "message": item.message_id,
    }


def _six(value: Decimal | None) -> Decimal | None:
    return None if value is None else value.quantize(Decimal("0.000001"))


def _words(value: object) -> object:
    return ", ".join(str(item) for item in value) if isinstance(value, list) else value
