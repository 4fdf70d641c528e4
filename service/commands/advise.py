"""``spotfloor advise``: the GPU Advisor."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from core.errors import InputError
from service.commands.options import Csv, Json, ProviderNames, one_format, provider_names, read_gpu
from service.output import print_csv, print_json

if TYPE_CHECKING:
    from optimizer.advice_question import Question
    from optimizer.models import ModelSpec


def advise(
    model: Annotated[
        str | None,
        typer.Option("--model", "-m", help="Model, e.g. meta-llama/Llama-3.1-8B-Instruct."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="Any other model: its Hugging Face config.json.")
    ] = None,
    params: Annotated[
        str | None, typer.Option(help="With --config: parameters in all, e.g. 8.03B.")
    ] = None,
    weights: Annotated[
        str | None, typer.Option(help="Weight format: bf16, fp8, int8, awq, gptq, … .")
    ] = None,
    kv_dtype: Annotated[str, typer.Option(help="Format of the KV cache: bf16 or fp8.")] = "bf16",
    context: Annotated[
        int | None, typer.Option(help="Tokens per request, in and out; default 8192.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Requests at the same time; default 16.")
    ] = None,
    tokens_in: Annotated[int | None, typer.Option(help="Input tokens per request.")] = None,
    tokens_out: Annotated[int | None, typer.Option(help="Output tokens per request.")] = None,
    prefix_overlap: Annotated[
        float | None, typer.Option(help="Share of the prompt that earlier requests began with.")
    ] = None,
    rps: Annotated[
        float | None,
        typer.Option(help="Requests per second of all traffic: gives the month's bill."),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(help="Request trace (CSV or JSON lines, also .gz): says tokens and overlap."),
    ] = None,
    latency: Annotated[str, typer.Option(help="chat or batch.")] = "chat",
    ttft_ms: Annotated[
        float | None, typer.Option(help="First token within, for 99 % of requests.")
    ] = None,
    tpot_ms: Annotated[float | None, typer.Option(help="Time per output token within.")] = None,
    spot_ok: Annotated[
        bool, typer.Option("--spot-ok/--no-spot", help="Whether spot may be recommended.")
    ] = True,
    gpu: Annotated[
        str | None, typer.Option("--gpu", "-g", help="GPUs to choose from, e.g. 'L40S,H100'.")
    ] = None,
    tensor_parallel: Annotated[
        int | None, typer.Option(help="The only tensor-parallel size to try.")
    ] = None,
    provider: ProviderNames = None,
    region: Annotated[
        list[str] | None, typer.Option("--region", "-r", help="Region prefix; repeatable.")
    ] = None,
    community: Annotated[bool, typer.Option("--community", help="Take private hosts too.")] = False,
    json: Json = False,
    csv: Csv = False,
) -> None:
    """Say which GPU, engine and flags serve a model, how fast, and what a token costs.

    Exit code 3 when nothing fits or keeps the latency limits; what would help is named.
    """
    from db.engine import reading
    from optimizer.advice_json import to_json
    from optimizer.advise import advise as answer
    from optimizer.supply import read_supply
    from service.advice_text import print_advice
    from service.context import make_context

    one_format(json=json, csv=csv)
    context_ = make_context()
    question = question_of(
        _model(model, config, params),
        {
            "weights": weights, "kv": kv_dtype, "context": context, "concurrency": concurrency,
            "input_tokens": tokens_in, "output_tokens": tokens_out, "overlap": prefix_overlap,
            "requests_per_s": rps, "trace": trace, "goal": latency,
            "ttft_p99_s": None if ttft_ms is None else ttft_ms / 1000,
            "tpot_s": None if tpot_ms is None else tpot_ms / 1000,
            "spot_ok": spot_ok, "gpus": cards(gpu), "tensor_parallel": tensor_parallel,
            "today": context_.clock.now().date(),
        },
    )  # fmt: skip
    with reading(context_.database) as session:
        supply = read_supply(
            session,
            context_.clock.now(),
            gpus=question.gpus,
            providers=provider_names(provider),
            regions=region or (),
            community=community,
        )
    found = answer(question, supply.options)
    document = to_json(
        found,
        snapshot_id=supply.snapshot_id if supply.options else None,
        prices_as_of=supply.prices_as_of if supply.options else None,
    )
    document["warnings"] += _about_prices(supply.origin, supply.prices_as_of, supply.left_out)
    if json:
        print_json(document)
    elif csv:
        rows = [_flat(offer) for offer in document["offers"]]
        print_csv(list(rows[0]) if rows else ["provider"], rows)
    else:
        print_advice(document, context_.clock.now())


def _flat(offer: dict[str, Any]) -> dict[str, Any]:
    """An offer as one row: its costs of tokens beside the rest."""
    full = {f"{key}_when_full": value for key, value in offer["tokens_when_full"].items()}
    rest = {k: v for k, v in offer.items() if k not in {"tokens", "tokens_when_full"}}
    return {**rest, **offer["tokens"], **full}


def _about_prices(origin: str, as_of: object, left_out: object) -> list[str]:
    lines = []
    if as_of is None:
        lines.append("no prices are stored yet: run 'spotfloor scrape run' or 'spotfloor up'")
    elif origin == "snapshot":
        lines.append("prices are the bundled snapshot, each with its own date: not live")
    if isinstance(left_out, dict) and left_out:
        counts = ", ".join(f"{count} {reason}" for reason, count in left_out.items())
        lines.append(f"offers left out: {counts}")
    return lines


def cards(text: str | None) -> tuple[str, ...]:
    """Read a list of cards."""
    found: dict[str, None] = {}
    for name in (text or "").replace(";", ",").split(","):
        if name.strip():
            found.update(dict.fromkeys(read_gpu(name.strip()).ids))
    return tuple(found)


def _model(name: str | None, config: Path | None, params: str | None) -> ModelSpec:
    import json

    from optimizer import models
    from optimizer.hf_config import from_config

    if config is None:
        if params is not None:
            raise InputError("--params only goes with --config")
        if name is None:
            raise InputError("say which model: --model NAME, or --config FILE")
        return models.find(name)
    try:
        loaded = json.loads(config.read_text("utf-8"))
    except OSError as error:
        raise InputError(f"--config {config}: cannot read: {error.strerror}") from None
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(f"--config {config}: no JSON: {error}") from None
    if not isinstance(loaded, dict):
        raise InputError(f"--config {config}: holds no JSON object; give a config.json")
    return from_config(loaded, name=name or "", params_total=_count(params))


def _count(text: str | None) -> int | None:
    """Read a number of parameters: 8030000000, 8.03B, 350M."""
    from decimal import Decimal, InvalidOperation

    if text is None:
        return None
    scale = {"B": 10**9, "M": 10**6}.get(text[-1:].upper(), 1)
    try:
        value = Decimal(text[:-1] if scale > 1 else text) * scale
    except InvalidOperation:
        raise InputError(f"--params {text}: write a number like 8.03B or 350M") from None
    if not value.is_finite() or value < 1:
        raise InputError(f"--params {text}: must be a positive number like 8.03B")
    return int(value)


def question_of(model: ModelSpec, given: dict[str, Any]) -> Question:
    """Build a question from option values; None means the default.

    Raises:
        InputError: a value is unusable; the message names it.
    """
    from optimizer.advice_question import LIMITS, Goal, Question
    from optimizer.request_trace import concurrency

    values = {key: value for key, value in given.items() if value is not None}
    goals = {goal.value: goal for goal in Goal}
    if values["goal"] not in goals:
        raise InputError(f"--latency {values['goal']}: write chat or batch")
    values["goal"] = goals[values["goal"]]
    path = values.pop("trace", None)
    if path is not None:
        seen = read_trace_file(path)
        limits = LIMITS[values["goal"]]
        flying = concurrency(seen, ttft_s=limits.ttft_p99_s or 1.0, tpot_s=limits.tpot_s or 0.03)
        longest = seen.input_quantile(0.99) + round(seen.mean_output)
        defaults = {
            "input_tokens": max(1, round(seen.mean_input)),
            "output_tokens": max(1, round(seen.mean_output)),
            "concurrency": max(1, flying.p95),
            "context": min(model.max_context, -(-longest // 1024) * 1024),
            "overlap": seen.overlap,
        }
        for name, value in defaults.items():
            if value is not None:
                values.setdefault(name, value)
        if seen.note:
            values["warnings"] = (seen.note,)
    elif "context" not in values:
        values["context"] = min(8192, model.max_context)
    return Question(model=model, **values)


def read_trace_file(path: Path) -> Any:
    """Read a request trace from CSV or JSON lines, gzipped or not.

    Raises:
        InputError: it cannot be read, or holds no usable row.
    """
    import csv
    import gzip
    import json

    from optimizer.request_trace import read_trace

    try:
        raw = path.read_bytes()
        text = (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).decode("utf-8-sig")
    except (OSError, EOFError) as error:
        raise InputError(f"--trace {path}: cannot read: {error}") from None
    except UnicodeDecodeError:
        raise InputError(f"--trace {path}: no text; give CSV or JSON lines") from None
    lines = text.splitlines()
    if lines and lines[0].lstrip().startswith("{"):
        rows = []
        for number, line in enumerate(lines, 1):
            try:
                row = json.loads(line) if line.strip() else None
            except (json.JSONDecodeError, RecursionError) as error:
                raise InputError(f"--trace {path} line {number}: no JSON: {error}") from None
            if isinstance(row, dict):
                rows.append(row)
        return read_trace(rows)
    return read_trace(csv.DictReader(lines))
