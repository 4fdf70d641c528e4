"""``spotfloor plan batch``: work with a deadline, on spot for as long as that is safe."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.commands.options import Json, ProviderNames
from service.output import print_json, print_table, say

if TYPE_CHECKING:
    from optimizer.batch import Job
    from optimizer.workload import Workload


def register(app: typer.Typer) -> None:
    """Add the command to ``spotfloor plan``."""

    @app.command()
    def batch(
        deadline: Annotated[float, typer.Option(help="Hours from now until it must be done.")],
        tokens: Annotated[
            float | None, typer.Option(help="Tokens to process, in and out together.")
        ] = None,
        jobs: Annotated[int | None, typer.Option(help="Jobs to run, one replica each.")] = None,
        hours_per_job: Annotated[float | None, typer.Option(help="Hours of one job.")] = None,
        tokens_per_second: Annotated[
            float | None,
            typer.Option(help="With --tokens: of one replica, in and out together (or --model)."),
        ] = None,
        model: Annotated[
            str | None,
            typer.Option("--model", "-m", help="The GPU Advisor says GPU, speed and reload time."),
        ] = None,
        tokens_in: Annotated[
            float | None, typer.Option(help="With --model: input tokens a request.")
        ] = None,
        tokens_out: Annotated[
            float | None, typer.Option(help="With --model: output tokens a request.")
        ] = None,
        gpu: Annotated[str | None, typer.Option("--gpu", "-g", help="GPUs allowed.")] = None,
        gpus_per_replica: Annotated[int | None, typer.Option(help="GPUs of one replica.")] = None,
        vram_gib: Annotated[
            float | None, typer.Option(help="Usable GiB that one replica needs.")
        ] = None,
        reload_minutes: Annotated[
            float | None, typer.Option(help="Minutes from an instance's start to work (5).")
        ] = None,
        checkpoint_minutes: Annotated[
            float | None,
            typer.Option(
                help="Minutes between checkpoints; else a lost job starts over, tokens are kept."
            ),
        ] = None,
        max_instances: Annotated[
            int | None, typer.Option(help="Most instances at one time (16).")
        ] = None,
        provider: ProviderNames = None,
        region: Annotated[
            list[str] | None, typer.Option("--region", "-r", help="Region prefix; repeatable.")
        ] = None,
        community: Annotated[
            bool, typer.Option("--community/--no-community", help="Take private hosts too.")
        ] = False,
        json: Json = False,
    ) -> None:
        """Finish work by a deadline: on spot, with the latest safe moment to leave it.

        Exit code 3 when the deadline cannot be kept for certain; what would be enough is named.
        """
        from dashboard.plan_asking import ask
        from optimizer.batch import plan_batch
        from optimizer.batch_json import batch_document
        from optimizer.pools import make_pools
        from service.context import make_context

        values: dict[str, Any] = {
            "name": "batch", "floor": 1.0, "ceiling": 1.0, "serves": "batch", "latency": "batch",
            "model": model, "tokens_in": tokens_in, "tokens_out": tokens_out, "gpu": gpu,
            "gpus_per_replica": gpus_per_replica, "vram_gib": vram_gib, "provider": provider,
            "region": region, "community": community, "reload_minutes": reload_minutes,
        }  # fmt: skip
        house = make_context()
        if model is None and (tokens_in is not None or tokens_out is not None):
            raise InputError("--tokens-in and --tokens-out only go with --model")
        if model is None:
            del values["latency"]
        asked = ask(house.database, house.clock.now(), values)
        if asked.sizing:
            say(asked.sizing)
        workload, supply = asked.workload, asked.supply
        job = job_of(
            workload, deadline=deadline, tokens=tokens, jobs=jobs, hours_per_job=hours_per_job,
            tokens_per_second=tokens_per_second, checkpoint_minutes=checkpoint_minutes,
            max_instances=max_instances,
        )  # fmt: skip
        plan = plan_batch(job, make_pools(workload, supply.options))
        document = batch_document(
            plan, _inputs(job, workload, jobs, tokens_per_second), snapshot_id=supply.snapshot_id
        )
        if json:
            print_json(document)
        else:
            print_batch(document)


def job_of(
    workload: Workload,
    *,
    deadline: float,
    tokens: float | None,
    jobs: int | None,
    hours_per_job: float | None,
    tokens_per_second: float | None,
    checkpoint_minutes: float | None,
    max_instances: int | None,
) -> Job:
    """Turn tokens or jobs into hours of one replica.

    Raises:
        InputError: the work is not said, or said twice, or a figure is not usable.
    """
    from optimizer.batch import MOST_INSTANCES, Job

    given: dict[str, Any] = {
        "deadline_hours": _positive("--deadline", deadline),
        "reload_hours": workload.reload_hours,
        "max_instances": MOST_INSTANCES if max_instances is None else max_instances,
    }
    if (tokens is None) == (jobs is None):
        raise InputError("say the work once: --tokens N, or --jobs N with --hours-per-job H")
    each = None if checkpoint_minutes is None else checkpoint_minutes / 60
    if tokens is not None:
        if hours_per_job is not None:
            raise InputError("--hours-per-job only goes with --jobs")
        speed = tokens_per_second or _speed(workload)
        if speed is None:
            raise InputError("--tokens needs --tokens-per-second of one replica, or --model")
        hours = _positive("--tokens", tokens) / _positive("--tokens-per-second", speed) / 3600
        return Job(replica_hours=hours, tokens=tokens, checkpoint_hours=each or 0.0, **given)
    if hours_per_job is None:
        raise InputError("--jobs needs --hours-per-job, the hours of one job on one replica")
    if tokens_per_second is not None:
        raise InputError("--tokens-per-second only goes with --tokens")
    unit, number = _positive("--hours-per-job", hours_per_job), int(_positive("--jobs", jobs))
    again = unit if each is None else min(each, unit)
    return Job(
        replica_hours=unit * number, unit_hours=unit, units=number, checkpoint_hours=again, **given
    )


def _speed(workload: Workload) -> float | None:
    """Tokens/s of one replica, in and out together, as the advisor says."""
    rate = workload.requests_per_second_per_replica
    if rate is None or workload.tokens_in is None or workload.tokens_out is None:
        return None
    return rate * (workload.tokens_in + workload.tokens_out)


def _positive(name: str, value: float | None) -> float:
    if value is None or not (math.isfinite(value) and value > 0):
        raise InputError(f"{name} {value}: must be a number above 0")
    return value


def _inputs(
    job: Job, workload: Workload, jobs: int | None, tokens_per_second: float | None
) -> dict[str, Any]:
    return {
        "tokens": job.tokens,
        "tokens_per_second_per_replica": None
        if job.tokens is None
        else tokens_per_second or _speed(workload),
        "jobs": jobs,
        "hours_per_job": job.unit_hours or None,
        "replica_hours": round(job.replica_hours, 6),
        "deadline_hours": job.deadline_hours,
        "reload_minutes": round(job.reload_hours * 60, 6),
        "checkpoint_minutes": round(job.checkpoint_hours * 60, 6),
        "max_instances": job.max_instances,
        "gpus": list(workload.gpus),
        "gpus_per_replica": workload.gpus_per_replica,
        "vram_gib_per_replica": workload.vram_gib_per_replica,
    }


def print_batch(document: dict[str, Any]) -> None:
    """Print the answer for people."""
    expected, whole, inputs = document["expected"], document["all_on_demand"], document["inputs"]
    typer.echo(document["summary"])
    lines = [
        "",
        f"work     {inputs['replica_hours']:,.4g} replica-hours = {document['work_hours']:.4g} h on"
        f" {document['replicas']} replicas; deadline {inputs['deadline_hours']:g} h, slack"
        f" {document['slack_hours']:.3g} h; {inputs['reload_minutes']:g} minutes to load,"
        f" {inputs['checkpoint_minutes']:g} between checkpoints",
        f"cost     {expected['usd']} USD expected: {expected['spot_hours']:.4g} h on spot,"
        f" {expected['on_demand_hours']:.4g} h on demand,"
        f" {expected['preemptions']:.3g} preemptions; on-demand needed with a chance of"
        f" {expected['switch_probability']:.2%}",
        f"compare  all on-demand: {whole['usd']} USD on {whole['replicas']} replicas",
    ]
    if expected["usd_per_million_tokens"] is not None:
        lines.append(f"tokens   {expected['usd_per_million_tokens']} USD per million")
    typer.echo("\n".join(lines))
    if document["moments"]:
        print_table(
            [("left", "work left>"), ("spot", "start on spot until hour>"),
             ("firm", "on-demand from hour>")],
            [
                {
                    "left": f"{moment['work_left']:.0%}",
                    "spot": f"{moment['launch_spot_until_hour']:.2f}",
                    "firm": f"{moment['on_demand_from_hour']:.2f}",
                }
                for moment in document["moments"]
            ],
            title="latest safe moments",
        )  # fmt: skip
        typer.echo("hours from the start; a machine that works on spot stays on it\n")
    typer.echo(f"policy   {document['policy']}")
    typer.echo("\n".join(f"warning  {line}" for line in document["warnings"]))
