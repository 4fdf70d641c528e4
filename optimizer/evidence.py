"""Measured speeds: what published benchmarks say, and which of them cannot be true.

A published point above the roofline, or one whose weights do not fit the stated cards, is no
evidence. The bundled table (``throughput_evidence.csv``) holds what passed, vLLM and SGLang only,
one row per set-up (the median where a set-up was measured several times).
"""

from __future__ import annotations

import csv
import statistics
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources

from core.errors import InputError
from core.gpus import gpu as gpu_by_id
from core.units import GIB
from optimizer.kv_cache import sequence_bytes
from optimizer.models import catalogue
from optimizer.performance import UPPER_BOUND, Replica, Traffic
from optimizer.roofline import (
    BAND_MEASURED,
    Basis,
    Estimate,
    estimate,
    flops_per_token,
    peak_flops,
    roofline_tokens_per_s,
)
from optimizer.weights import weight_bytes

ENGINES = ("vllm", "sglang")
LARGEST_COUNT = 8
"""Beyond it the sources multiply GPUs by attention replicas on the same GPUs."""
USABLE_SHARE = 0.97
WAITING_SHARE = 0.5
"""When the first token takes half of a request's time, most "users" wait and do not decode."""
PROMPT_PEAK_SHARE = 0.5
"""Prompts alone at half of peak FLOP/s, while decoding: prefix hits are the likely cause."""
NEAR = 0.10
SPOILT_SHARE = 0.25

ABOVE_ROOFLINE = "impossible: above the roofline"
PROMPTS_TOO_FAST = "suspect: prompts alone would take half of peak FLOP/s, prefix hits are likely"
TOO_FAST = frozenset({ABOVE_ROOFLINE, PROMPTS_TOO_FAST})

MODEL_NAMES = {
    "MiniMaxAI/MiniMax-M2.5": "MiniMaxAI/MiniMax-M2.7",
    "Qwen/Qwen3-235B-A22B-FP8": "Qwen/Qwen3-235B-A22B-Instruct-2507",
    "Qwen/Qwen3-32B": "Qwen/Qwen3-32B",
    "Qwen/Qwen3.5-397B-A17B": "Qwen/Qwen3.5-397B-A17B",
    "deepseek-ai/DeepSeek-R1": "deepseek-ai/DeepSeek-R1-0528",
    "deepseek-ai/DeepSeek-V3": "deepseek-ai/DeepSeek-R1-0528",
    "meta-llama/Llama-3.1-70B": "meta-llama/Llama-3.1-70B-Instruct",
    "meta-llama/Llama-3.1-8B-Instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "nvidia/Llama-3.1-8B-Instruct-FP8": "meta-llama/Llama-3.1-8B-Instruct",
    "moonshotai/Kimi-K2.5": "moonshotai/Kimi-K2.6",
    "openai/gpt-oss-120b": "openai/gpt-oss-120b",
    "Llama-3.1-8B": "meta-llama/Llama-3.1-8B-Instruct",
    "Llama-3.2-3B": "meta-llama/Llama-3.2-3B-Instruct",
    "meta-llama/Llama-3.2-3B": "meta-llama/Llama-3.2-3B-Instruct",
}
"""Published name to the model of the same architecture in our table; others are not used."""

GPU_NAMES = {
    "H100-SXM": "h100-sxm",
    "H200-SXM": "h200-sxm",
    "B200": "b200",
    "B300": "b300",
    "GB200": "gb200",
    "A100-80GB": "a100-80gb-sxm",
    "A100-40GB": "a100-40gb-sxm",
    "L4": "l4",
    "A10G": "a10g",
    "L40S": "l40s",
}

_FORMATS = {"": "bf16", "bf16?": "bf16", "fp16": "bf16", "fp4": "nvfp4"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One measurement of a server or a static batch.

    Attributes:
        model, weights, gpu: our ids.
        load: ``users`` (closed loop, continuous batching) or ``static`` (one batch, start to end).
        output_tokens_per_s: of all ``gpu_count`` cards.
        ttft_ms, tpot_ms: as measured, milliseconds.
        date: of the measurement, ISO, as exact as the source has it.
    """

    model: str
    weights: str
    gpu: str
    gpu_count: int
    engine: str
    engine_version: str
    load: str
    input_tokens: int
    output_tokens: int
    users: int
    output_tokens_per_s: float
    ttft_ms: float
    tpot_ms: float
    source: str
    date: str

    @property
    def setup(self) -> tuple[object, ...]:
        """What makes two points measurements of the same thing."""
        return (
            self.model,
            self.weights,
            self.gpu,
            self.gpu_count,
            self.engine,
            self.load,
            self.input_tokens,
            self.output_tokens,
            self.users,
        )

    def replica(self) -> Replica:
        """The measured replica; the cards are taken as one tensor-parallel group.

        Raises:
            InputError: the model cannot be split that way.
        """
        return Replica(
            model=catalogue()[self.model],
            gpu=gpu_by_id(self.gpu),
            weights=self.weights,
            tensor_parallel=self.gpu_count,
        )

    def traffic(self) -> Traffic:
        """The measured traffic."""
        return Traffic(
            input_tokens=self.input_tokens, output_tokens=self.output_tokens, users=self.users
        )


@dataclass(frozen=True, slots=True)
class Refused:
    """A published row that is not used, and why."""

    row: int
    reason: str


def read_published(
    rows: Iterable[Mapping[str, str]],
) -> tuple[list[Point], list[Refused]]:
    """Read rows of a published-throughput table and leave out what cannot be true.

    Args:
        rows: as ``csv.DictReader`` gives them, columns ``model, quantization, gpu, gpu_count,
            engine, input_tokens, output_tokens, concurrency_or_rate, tokens_per_s_output,
            ttft_ms, tpot_ms, source, date``.

    Returns:
        The usable points, and every other row with its reason.
    """
    judged: list[tuple[int, Point, str]] = []
    refused: list[Refused] = []
    for number, row in enumerate(rows, start=2):
        try:
            point = _point(row)
            judged.append((number, point, problem(point)))
        except (InputError, ValueError, KeyError) as exc:
            refused.append(Refused(number, str(exc.args[0])))
    spoilt = _spoilt_runs(judged)
    points: list[Point] = []
    for number, point, reason in judged:
        if not reason and _run(point) in spoilt:
            reason = "suspect: too much of the same run is too fast to be true"
        if reason:
            refused.append(Refused(number, reason))
        else:
            points.append(point)
    return points, refused


def problem(point: Point) -> str:
    """Return why a measurement cannot be evidence for a replica's speed; "" when it can.

    Raises:
        InputError: the stated cards cannot run the model at all.
    """
    if point.gpu_count > LARGEST_COUNT:
        return f"more than {LARGEST_COUNT} GPUs: attention replicas counted twice"
    replica, traffic = point.replica(), point.traffic()
    card = replica.gpu
    room = USABLE_SHARE * point.gpu_count * float(card.vram_usable_gib) * GIB
    weights = weight_bytes(replica.model, point.weights).total
    if weights > room:
        return "impossible: weights do not fit the stated GPUs"
    if weights + point.users * sequence_bytes(replica.model, point.input_tokens, "fp8") > room:
        return "impossible: the prompts of all users do not fit, even as fp8"
    if point.output_tokens_per_s > roofline_tokens_per_s(replica, traffic):
        return ABOVE_ROOFLINE
    prompts = point.output_tokens_per_s * point.input_tokens / point.output_tokens
    peak = point.gpu_count * peak_flops(replica, UPPER_BOUND)
    if prompts * flops_per_token(replica.model) > PROMPT_PEAK_SHARE * peak:
        return PROMPTS_TOO_FAST
    whole = point.ttft_ms + point.tpot_ms * (point.output_tokens - 1)
    if point.load == "users" and point.ttft_ms >= WAITING_SHARE * whole:
        return "queued: the stated users wait, they do not decode"
    return ""


def condense(points: Iterable[Point]) -> list[Point]:
    """One point per set-up: medians, with source, date and version of the newest."""
    groups: dict[tuple[object, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(point.setup, []).append(point)
    result = []
    for group in groups.values():
        newest = max(group, key=lambda point: (point.date, point.engine_version))
        result.append(
            replace(
                newest,
                output_tokens_per_s=round(_median(group, "output_tokens_per_s"), 2),
                ttft_ms=round(_median(group, "ttft_ms"), 1),
                tpot_ms=round(_median(group, "tpot_ms"), 3),
            )
        )
    return sorted(result, key=lambda point: tuple(str(part).zfill(8) for part in point.setup))


@cache
def points() -> tuple[Point, ...]:
    """The bundled measured points."""
    text = resources.files("optimizer").joinpath("throughput_evidence.csv").read_text("utf-8")
    return tuple(_stored(row) for row in csv.DictReader(text.splitlines()))


def measured(
    replica: Replica,
    traffic: Traffic,
    *,
    engine: str | None = None,
    among: Sequence[Point] | None = None,
) -> tuple[Point, ...]:
    """Points of the same model, format, cards and count, within 10 % of the same traffic.

    Static batches and cached prompts are no match; the cache format must be 16 bit.
    """
    if traffic.hit > 0 or replica.pipeline_parallel > 1 or replica.kv != "bf16":
        return ()
    return tuple(
        point
        for point in (points() if among is None else among)
        if point.model == replica.model.id
        and point.weights == replica.weights
        and point.gpu == replica.gpu.id
        and point.gpu_count == replica.tensor_parallel
        and point.load == "users"
        and engine in (None, point.engine)
        and _near(point.input_tokens, traffic.input_tokens)
        and _near(point.output_tokens, traffic.output_tokens)
        and _near(point.users, traffic.users)
    )


def best_estimate(
    replica: Replica,
    traffic: Traffic,
    *,
    engine: str | None = None,
    among: Sequence[Point] | None = None,
) -> Estimate:
    """The measured speed where somebody measured this set-up, else the model's.

    Raises:
        InputError: as ``roofline.estimate``.
    """
    model = estimate(replica, traffic)
    found = measured(replica, traffic, engine=engine, among=among)
    if not found:
        return model
    speed = statistics.median(point.output_tokens_per_s for point in found)
    speed = min(speed, model.roofline_tokens_per_s)
    tpot = statistics.median(point.tpot_ms for point in found) / 1000
    newest = max(found, key=lambda point: point.date)
    return replace(
        model,
        step_seconds=tpot,
        ttft_seconds=statistics.median(point.ttft_ms for point in found) / 1000,
        output_tokens_per_s=speed,
        total_tokens_per_s=speed * (1 + traffic.input_tokens / traffic.output_tokens),
        basis=Basis.MEASURED,
        band=BAND_MEASURED,
        notes=(f"{newest.engine} {newest.engine_version}, {newest.date}, {newest.source}",),
    )


def _run(point: Point) -> tuple[str, ...]:
    return (point.model, point.weights, point.gpu, point.engine, point.engine_version)


def _spoilt_runs(judged: Sequence[tuple[int, Point, str]]) -> set[tuple[str, ...]]:
    """Runs of which a quarter or more is faster than it can be: the rest is no better."""
    total = Counter(_run(point) for _, point, _ in judged)
    fast = Counter(_run(point) for _, point, reason in judged if reason in TOO_FAST)
    return {run for run, count in fast.items() if count >= SPOILT_SHARE * total[run]}


def _near(measured_value: int, asked: int) -> bool:
    return abs(measured_value - asked) <= NEAR * asked


def _median(group: Sequence[Point], field: str) -> float:
    return float(statistics.median(getattr(point, field) for point in group))


def _point(row: Mapping[str, str]) -> Point:
    name, _, version = row["engine"].partition(" ")
    engine = name.lower()
    load, users = _load(row["concurrency_or_rate"])
    if row["model"] not in MODEL_NAMES:
        raise ValueError("not used: model is not mapped")
    if row["gpu"] not in GPU_NAMES:
        raise ValueError("not used: GPU is not mapped")
    if engine not in ENGINES:
        raise ValueError(f"not used: engine {name}")
    if not row["tpot_ms"] or not row["ttft_ms"]:
        raise ValueError("not used: no TTFT and TPOT")
    count = int(row["gpu_count"] or 0)
    if count < 1:
        raise ValueError("broken: no GPU count")
    weights = _FORMATS.get(row["quantization"], row["quantization"])
    if "gpt-oss" in row["model"]:
        weights = "mxfp4"
    return Point(
        model=MODEL_NAMES[row["model"]],
        weights=weights,
        gpu=GPU_NAMES[row["gpu"]],
        gpu_count=count,
        engine=engine,
        engine_version=version.strip(),
        load=load,
        input_tokens=round(float(row["input_tokens"])),
        output_tokens=round(float(row["output_tokens"])),
        users=users,
        output_tokens_per_s=float(row["tokens_per_s_output"]),
        ttft_ms=float(row["ttft_ms"]),
        tpot_ms=float(row["tpot_ms"]),
        source=row["source"],
        date=row["date"],
    )


def _load(text: str) -> tuple[str, int]:
    kind, _, number = text.partition("=")
    if kind == "concurrency":
        return "users", int(number)
    if kind in ("static batch", "batch"):
        return "static", int(number)
    raise ValueError("not used: a request rate or an offline run, not a number of users")


def _stored(row: Mapping[str, str]) -> Point:
    return Point(
        model=row["model"],
        weights=row["weights"],
        gpu=row["gpu"],
        gpu_count=int(row["gpu_count"]),
        engine=row["engine"],
        engine_version=row["engine_version"],
        load=row["load"],
        input_tokens=int(row["input_tokens"]),
        output_tokens=int(row["output_tokens"]),
        users=int(row["users"]),
        output_tokens_per_s=float(row["output_tokens_per_s"]),
        ttft_ms=float(row["ttft_ms"]),
        tpot_ms=float(row["tpot_ms"]),
        source=row["source"],
        date=row["date"],
    )
