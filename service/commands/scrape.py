"""``spotfloor scrape``: collect prices, see what each source last did, try a parser."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import InputError
from service.commands import scrape_status
from service.commands.options import Json, ProviderNames, provider_names, read_instant
from service.output import print_json, print_table, say

if TYPE_CHECKING:
    from db.engine import Database
    from pricing.collect import RunSummary

app = typer.Typer(help="Collect prices from providers.", no_args_is_help=True)

FAILED_EXIT = 5
_BAD = {"failed", "suspect", "partial"}


@app.command("run")
def run_command(
    provider: ProviderNames = None,
    folder: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Read recorded payloads DIR/<provider>/<file>, or a run of the archive, instead.",
        ),
    ] = None,
    observed_at: Annotated[
        str | None,
        typer.Option(help="With --from: when the payloads were recorded; default now."),
    ] = None,
    json: Json = False,
) -> None:
    """Collect now, from the network or from a recorded folder.

    Exit code 5 when a provider failed, or its run was partial or suspect; stored prices that
    were not replaced stay and age.
    """
    from pricing.archive import archive_of
    from pricing.run import collect_network, collect_recorded
    from service.context import make_context

    names = provider_names(provider, collected=True)
    at = read_instant("--observed-at", observed_at)
    if at is not None and folder is None:
        raise InputError("--observed-at only goes with --from; a network run is observed now")
    context = make_context()
    summaries = []
    with _progress(json=json) as tell:
        stream = (
            collect_network(context.database, context.settings, context.clock, names, tell)
            if folder is None
            else collect_recorded(
                context.database,
                folder,
                context.clock,
                names,
                at,
                tell,
                archive_of(context.settings),
            )
        )
        summaries = list(stream)
    _print_runs(summaries, context.database, json=json)
    if any(item.state.value in _BAD for item in summaries):
        raise typer.Exit(FAILED_EXIT)


@app.command()
def accept(
    run: Annotated[int, typer.Argument(help="Number of the run, from 'scrape status'.")],
    json: Json = False,
) -> None:
    """Believe a run that the quality gate doubted, and apply its prices at that run's time.

    The payloads are read again from the archive; nothing is fetched.
    """
    from pricing.archive import archive_of
    from pricing.run import accept_run
    from service.context import make_context

    context = make_context()
    summary = accept_run(context.database, archive_of(context.settings), context.clock, run)
    _print_runs([summary], context.database, json=json)


def _print_runs(summaries: list[RunSummary], database: Database, *, json: bool) -> None:
    from db.engine import reading
    from db.offers import snapshot_id

    with reading(database) as session:
        snapshot = snapshot_id(session, "live")
    rows = [
        {
            "run_id": item.result.run_id,
            "provider": item.provider,
            "state": item.state.value,
            "reason": item.reason,
            "detail": item.detail,
            "offers": item.offers,
            "rejected": item.rejected,
            "failures": item.failures,
            "findings": item.findings,
            "spans_opened": item.result.opened,
            "spans_closed": item.result.closed,
            "spans_kept": item.result.kept,
            "started_at": item.started_at,
            "finished_at": item.finished_at,
        }
        for item in summaries
    ]
    if json:
        print_json({"schema": "spotfloor.scrape/1", "snapshot_id": snapshot, "runs": rows})
        return
    print_table(
        [
            ("provider", "provider"),
            ("state", "state"),
            ("offers", "offers>"),
            ("rejected", "rejected>"),
            ("findings", "findings>"),
            ("spans_opened", "new or changed>"),
            ("spans_closed", "gone>"),
            ("spans_kept", "unchanged>"),
            ("detail", "detail"),
        ],
        rows,
    )


@contextmanager
def _progress(*, json: bool) -> Iterator[Callable[[str], None]]:
    """Show what is being done on a terminal; nothing in a pipe or beside JSON."""
    if json or not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("starting", total=None)

        def tell(text: str) -> None:
            progress.update(task, description=text)

        yield tell


@app.command()
def parse(
    files: Annotated[list[Path], typer.Argument(help="Payload files, parsed together.")],
    provider: Annotated[str, typer.Option("--provider", "-p", help="Whose parser to use.")],
    observed_at: Annotated[
        str | None, typer.Option(help="When the payloads were recorded; default now.")
    ] = None,
    json: Json = False,
) -> None:
    """Parse payload files without storing anything; for debugging.

    Exit code 5 when a file as a whole is no price list.
    """
    from core.clock import SystemClock
    from pricing.merge import merged
    from pricing.recorded import common_payloads, payload_of
    from pricing.registry import by_name
    from service.shapes import (
        failure_shape,
        observation_shape,
        parsed_offer_shape,
        rejected_shape,
        tariff_shape,
    )

    provider_names([provider], collected=True)
    source = by_name(provider)
    now = SystemClock().now()
    at = read_instant("--observed-at", observed_at) or now
    payloads = [payload_of(path, provider, at) for path in files]
    payloads += common_payloads(source, files[0].parent, at, [path.name for path in files])
    found, _ = merged(source.parse(payloads))
    marketplace = source.kind == "marketplace"
    document = {
        "schema": "spotfloor.parse/1",
        "provider": provider,
        "files": [path.name for path in files],
        "offers": [parsed_offer_shape(o, now, marketplace=marketplace) for o in found.offers],
        "rejected": [
            *(failure_shape(item) for item in found.failures),
            *(rejected_shape(item) for item in found.rejected),
        ],
        "egress": [tariff_shape(item) for item in found.egress],
        "observations": [observation_shape(item) for item in found.observations],
    }
    if json:
        print_json(document)
    else:
        _print_parsed(document)
    if found.failures:
        raise typer.Exit(FAILED_EXIT)


def _print_parsed(document: Mapping[str, object]) -> None:
    offers, rejected = document["offers"], document["rejected"]
    egress, observations = document["egress"], document["observations"]
    assert isinstance(offers, list)
    assert isinstance(rejected, list)
    assert isinstance(egress, list)
    assert isinstance(observations, list)
    if offers:
        print_table(
            [
                ("region", "region"),
                ("zone", "zone"),
                ("instance_type", "instance type"),
                ("gpu", "GPU"),
                ("gpu_count", "GPUs>"),
                ("purchase_option", "option"),
                ("usd_per_hour", "USD/h>"),
                ("availability", "availability"),
            ],
            offers,
            title=f"{len(offers)} offers",
        )
    if rejected:
        print_table(
            [
                ("reason", "reason"),
                ("count", "rows>"),
                ("source_file", "file"),
                ("detail", "detail"),
            ],
            rejected,
            title=f"{len(rejected)} rejections",
        )
    say(f"{len(egress)} egress tariffs, {len(observations)} observations on spot reliability")


app.command("status")(scrape_status.status)
