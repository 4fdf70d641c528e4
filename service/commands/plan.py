"""``spotfloor plan``: the fleet planner."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from core.errors import InputError
from service.commands import plan_simulate
from service.commands.options import Json, ProviderNames
from service.commands.plan_batch import register as register_batch
from service.commands.plan_export import export
from service.commands.plan_extras import print_extras
from service.commands.plan_reprice import register as register_reprice
from service.commands.plan_saved import keep, print_frontier, register
from service.commands.plan_text import verdict_lines
from service.commands.plan_traffic import print_traffic, show_traffic, traffic_text
from service.output import print_json, print_table, quiet_solver, say

app = typer.Typer(help="Plan the cheapest fleet that meets a workload.", no_args_is_help=True)


@app.callback()
def _plan() -> None:
    """Plan the cheapest fleet that meets a workload."""


@app.command()
def solve(
    spec: Annotated[
        Path | None, typer.Argument(help="TOML file with the same names as the options.")
    ] = None,
    example: Annotated[bool, typer.Option("--example", help="Solve the built-in example.")] = False,
    name: Annotated[str | None, typer.Option(help="Label of the workload.")] = None,
    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            help="Model to serve: the GPU Advisor then says GPU, rate per replica and reload time.",
        ),
    ] = None,
    weights: Annotated[str | None, typer.Option(help="With --model: weight format.")] = None,
    kv_dtype: Annotated[str | None, typer.Option(help="With --model: bf16 or fp8 cache.")] = None,
    context: Annotated[
        int | None, typer.Option(help="With --model: tokens per request that must fit.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="With --model: requests at once on one replica.")
    ] = None,
    latency: Annotated[str | None, typer.Option(help="With --model: chat or batch.")] = None,
    gpu: Annotated[
        str | None, typer.Option("--gpu", "-g", help="GPUs allowed, e.g. L40S or 'H100,H200'.")
    ] = None,
    gpus_per_replica: Annotated[int | None, typer.Option(help="GPUs of one replica.")] = None,
    vram_gib: Annotated[
        float | None, typer.Option(help="Usable GiB that one replica needs, all its GPUs together.")
    ] = None,
    floor: Annotated[
        float | None, typer.Option(help="Replicas needed at the quietest hour.")
    ] = None,
    ceiling: Annotated[float | None, typer.Option(help="Replicas needed at the busiest.")] = None,
    floor_rps: Annotated[
        float | None, typer.Option(help="Requests/s at the quietest hour.")
    ] = None,
    ceiling_rps: Annotated[float | None, typer.Option(help="Requests/s at the busiest.")] = None,
    rps_per_replica: Annotated[
        float | None, typer.Option(help="Requests/s that one replica serves.")
    ] = None,
    profile: Annotated[
        Path | None,
        typer.Option(
            help="File with 24 or 168 hourly values (replicas, or requests/s with a rate)."
        ),
    ] = None,
    traffic: Annotated[
        Path | None,
        typer.Option(
            help="CSV of requests (timestamp[,tokens_in,tokens_out]; Azure, Mooncake) or of rates"
            " (hour,rps; timestamp,rps; ServeGen); .gz too."
        ),
    ] = None,
    series: Annotated[
        str | None, typer.Option(help="With --traffic: which workload of a ServeGen file.")
    ] = None,
    timezone: Annotated[
        str | None, typer.Option(help="With --traffic: whose hours, e.g. Europe/Berlin; else UTC.")
    ] = None,
    growth: Annotated[float | None, typer.Option(help="Factor on the demand, e.g. 1.3.")] = None,
    floor_quantile: Annotated[
        float | None, typer.Option(help="With --traffic: the floor is this quantile (0.1).")
    ] = None,
    ceiling_quantile: Annotated[
        float | None, typer.Option(help="With --traffic: the ceiling is this quantile (0.99).")
    ] = None,
    headroom_quantile: Annotated[
        float | None, typer.Option(help="Share of minutes that the headroom covers (0.95).")
    ] = None,
    burstiness: Annotated[
        float | None,
        typer.Option(help="Variation (CV) of the times between requests; 1 = Poisson."),
    ] = None,
    serves: Annotated[
        str | None, typer.Option(help="users, batch or experiments: for the verdict's rules.")
    ] = None,
    stateful: Annotated[
        bool | None,
        typer.Option("--stateful/--stateless", help="A lost replica loses more than its requests."),
    ] = None,
    tolerates_minutes: Annotated[
        float | None, typer.Option(help="Minutes of interruption that do no harm.")
    ] = None,
    availability: Annotated[
        float | None, typer.Option(help="Share of the demand to serve, e.g. 0.99.")
    ] = None,
    reload_minutes: Annotated[
        float | None, typer.Option(help="Minutes from an instance's start to serving.")
    ] = None,
    headroom: Annotated[
        float | None,
        typer.Option(help="Extra capacity, e.g. 0.15; computed where rates are known."),
    ] = None,
    tokens_in: Annotated[float | None, typer.Option(help="Input tokens per request.")] = None,
    tokens_out: Annotated[float | None, typer.Option(help="Output tokens per request.")] = None,
    egress_gb: Annotated[float | None, typer.Option(help="Traffic out in GB a month.")] = None,
    weights_gb: Annotated[float | None, typer.Option(help="Model size in GB (downloads).")] = None,
    provider: ProviderNames = None,
    region: Annotated[
        list[str] | None, typer.Option("--region", "-r", help="Region prefix; repeatable.")
    ] = None,
    community: Annotated[
        bool | None, typer.Option("--community/--no-community", help="Take private hosts too.")
    ] = None,
    max_instances: Annotated[int | None, typer.Option(help="Most instances at one time.")] = None,
    max_gpus: Annotated[int | None, typer.Option(help="Most GPUs at one time.")] = None,
    max_zone_share: Annotated[
        float | None, typer.Option(help="Largest share of the capacity in one zone, e.g. 0.5.")
    ] = None,
    max_provider_share: Annotated[
        float | None, typer.Option(help="Largest share of the capacity at one provider.")
    ] = None,
    max_region_share: Annotated[
        float | None, typer.Option(help="Largest share of the capacity in one region.")
    ] = None,
    max_pool_share: Annotated[
        float | None, typer.Option(help="Largest share of the capacity of one offer.")
    ] = None,
    max_usd_per_month: Annotated[
        float | None, typer.Option("--budget", help="Most USD a month; a dearer fleet is refused.")
    ] = None,
    min_on_demand: Annotated[
        float | None, typer.Option(help="Replicas on demand at least, in every hour.")
    ] = None,
    min_on_demand_share: Annotated[
        float | None, typer.Option(help="Share of the demand that on-demand alone can serve.")
    ] = None,
    warm_standby: Annotated[
        float | None, typer.Option(help="Replicas on demand beyond the demand, kept ready.")
    ] = None,
    survive: Annotated[
        str | None,
        typer.Option(help="zone, region or provider: serve all the demand with any one lost."),
    ] = None,
    quantile: Annotated[
        float | None,
        typer.Option(help="Share of states of an hour that keep the availability, e.g. 0.95."),
    ] = None,
    quota: Annotated[
        list[str] | None, typer.Option(help="GPUs at a provider, e.g. aws=32; repeatable.")
    ] = None,
    origin: Annotated[str | None, typer.Option(help="live or snapshot.")] = None,
    price_basis: Annotated[
        str | None,
        typer.Option(help="Price of an offer: latest, median-7d or p90-30d (of its own history)."),
    ] = None,
    sensitivity: Annotated[
        bool,
        typer.Option(
            "--sensitivity",
            help="Also solve with each input 20 % lower and higher, and find where spot stops"
            " paying (some 40 solves).",
        ),
    ] = False,
    why_not: Annotated[
        list[str] | None,
        typer.Option(
            help="Say why an offer is not in the plan: its id, or words of it, e.g."
            " 'aws us-east-1 spot'; repeatable.",
        ),
    ] = None,
    targets: Annotated[
        str | None,
        typer.Option(
            "--frontier",
            help="Served shares, e.g. 0.9,0.99,0.999: print what each costs instead of one plan.",
        ),
    ] = None,
    save: Annotated[bool, typer.Option("--save", help="Keep the plan (plan list, show).")] = False,
    json: Json = False,
) -> None:
    """Choose how many of which instances to run on demand and on spot, hour by hour.

    Exit code 3 when no fleet meets the target within the limits; what to relax is named.
    """
    from dashboard.plan_asking import ask, document_of
    from dashboard.plan_asking import solve as solve_asked
    from optimizer.plan_traffic import said_once
    from service.commands.plan_extras import extras
    from service.context import make_context

    given: dict[str, Any] = {
        "name": name, "model": model, "weights": weights, "kv_dtype": kv_dtype,
        "context": context, "concurrency": concurrency, "latency": latency, "gpu": gpu,
        "gpus_per_replica": gpus_per_replica, "vram_gib": vram_gib, "floor": floor,
        "ceiling": ceiling, "floor_rps": floor_rps, "ceiling_rps": ceiling_rps,
        "rps_per_replica": rps_per_replica, "profile": profile, "availability": availability,
        "reload_minutes": reload_minutes, "headroom": headroom, "tokens_in": tokens_in,
        "tokens_out": tokens_out, "egress_gb": egress_gb, "weights_gb": weights_gb,
        "provider": provider, "region": region, "community": community,
        "max_instances": max_instances, "max_gpus": max_gpus, "max_zone_share": max_zone_share,
        "max_provider_share": max_provider_share, "quota": quota, "origin": origin,
        "max_region_share": max_region_share, "max_pool_share": max_pool_share,
        "max_usd_per_month": max_usd_per_month, "min_on_demand": min_on_demand,
        "min_on_demand_share": min_on_demand_share, "warm_standby": warm_standby,
        "survive": survive, "quantile": quantile, "price_basis": price_basis,
        "traffic": traffic, "series": series,
        "timezone": timezone, "growth": growth, "floor_quantile": floor_quantile,
        "ceiling_quantile": ceiling_quantile, "headroom_quantile": headroom_quantile,
        "burstiness": burstiness, "serves": serves, "stateful": stateful,
        "tolerates_minutes": tolerates_minutes,
    }  # fmt: skip
    if save and targets is not None:
        raise InputError("--save keeps one plan; leave out --frontier")
    if targets is not None and (sensitivity or why_not):
        raise InputError("--sensitivity and --why-not are about one plan; leave out --frontier")
    values = _from_file(spec, set(given))
    values.update({key: value for key, value in given.items() if value is not None})
    house = make_context()
    text = None
    said_once(values)
    if example:
        values["example"] = True
    elif values.get("profile") is not None:
        values["profile"] = _profile(Path(str(values["profile"])))
    if values.get("traffic") is not None and not example:
        path = Path(str(values["traffic"]))
        values["traffic"], text = path.name, traffic_text(path)
    asked = ask(house.database, house.clock.now(), values, traffic_text=text)
    if asked.sizing:
        say(asked.sizing)
    if targets is not None:
        show_traffic(asked.traffic)
        print_frontier(asked.workload, asked.supply, targets, json=json)
        return
    with quiet_solver():
        plan = solve_asked(asked)
    more = extras(plan, asked.supply, house, sensitivity=sensitivity, why_not=why_not or ())
    document = document_of(asked, plan)
    if save:
        keep(document, house)
    document.update(more)
    if json:
        print_json(document)
    else:
        print_plan(document)


def _from_file(spec: Path | None, known: set[str]) -> dict[str, Any]:
    """Read a TOML specification; the command line overrides it."""
    import difflib
    import tomllib

    if spec is None:
        return {}
    try:
        values = tomllib.loads(spec.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"{spec}: cannot read: {error.strerror}; give a TOML file") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InputError(f"{spec}: no TOML: {error}") from None
    for key in values:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
            raise InputError(f"{spec}: unknown key {key!r}; {hint}")
    for name in ("profile", "traffic"):
        if isinstance(values.get(name), str):
            values[name] = spec.parent / values[name]
    return values


def _profile(path: Path) -> tuple[float, ...]:
    """Read hourly values: numbers apart by commas, blanks or lines; # starts a comment."""
    try:
        text = path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--profile {path}: cannot read: {error}") from None
    values = []
    for number, line in enumerate(text.splitlines(), 1):
        for word in line.partition("#")[0].replace(",", " ").split():
            try:
                values.append(float(word))
            except ValueError:
                raise InputError(
                    f"--profile {path} line {number}: {word!r} is no number;"
                    " give 24 or 168 hourly values"
                ) from None
    return tuple(values)


def print_plan(document: dict[str, Any]) -> None:
    """Print a plan's document for people."""
    typer.echo(document["summary"])
    print_traffic(document)
    cost, service = document["cost"], document["service"]
    print_table(
        [
            ("role", "role"),
            ("count", "instances>"),
            ("card", "GPUs"),
            ("option", "option"),
            ("place", "where"),
            ("type", "instance type"),
            ("price", "USD/h each>"),
            ("as_of", "price of"),
            ("hazard", "preemptions/h up>"),
        ],
        [
            {
                "role": row["role"],
                "count": str(row["instances_max"])
                if row["instances_min"] == row["instances_max"]
                else f"{row['instances_min']}-{row['instances_max']}",
                "card": f"{row['gpu_count']} x {row['gpu']}",
                "option": row["purchase_option"].replace("_", "-"),
                "place": f"{row['provider']} {row['zone'] or row['region']}",
                "type": row["instance_type"],
                "price": row["usd_per_instance_hour"],
                "as_of": str(row["price_as_of"])[:10],
                "hazard": f"{row['hazard_per_hour']:g}",
            }
            for row in document["fleet"]
        ],
    )
    low, high = service["served_share_interval"]
    per_million = cost["usd_per_million_tokens"]
    lines = [
        f"cost     {cost['usd_per_month']} USD a month: compute {cost['compute_usd_per_month']},"
        f" reloads {cost['preemption_usd_per_month']}, egress {cost['egress_usd_per_month']}"
        + (f"; {per_million} USD per million tokens" if per_million else ""),
        f"service  {service['served_share']:.3%} of the demand (asked {service['target']:.3%}),"
        f" between {low:.2%} and {high:.2%} by what is known of the risk,"
        f" worst hour {service['worst_hour_served_share']:.2%},"
        f" {service['preemptions_per_day']:.1f} preemptions a day",
        *verdict_lines(document.get("verdict")),
        "",
        *(f"why      {line}" for line in document["why"]),
        *(f"warning  {line}" for line in document["warnings"]),
        "",
        f"plan {document['plan_id']} on prices {document['snapshot_id']}",
    ]
    typer.echo("\n".join(lines))
    print_extras(document)
    say()


register(app, print_plan)
app.command()(export)
register_reprice(app)
register_batch(app)
plan_simulate.register(app)
