"""How to measure on your own server what we can only predict: commands, and what to read.

Both engines bring a load generator. One run with unrelated prompts gives speed, one with a shared
beginning gives what the prefix cache brings; the servers' metrics say how often it hits.
"""

from __future__ import annotations

import shlex

from core.errors import InputError
from optimizer.engine_flags import STARTS

ROUNDS = 10
"""Requests per user: enough for a steady state after the first wave."""
LEAST_PROMPTS = 100
PREFIX_GROUPS = 8
VLLM_PORT = 8000
SGLANG_PORT = 30000

READ = {
    "vllm": (
        "hit rate = vllm:prefix_cache_hits / vllm:prefix_cache_queries (tokens, on /metrics)",
        "cache fill = vllm:kv_cache_usage_perc; waiting requests = vllm:num_requests_waiting",
    ),
    "sglang": (
        "start the server with --enable-metrics --enable-cache-report; hit rate ="
        " sglang:cache_hit_rate (on /metrics) and cached tokens in each response's usage",
        "cache fill = sglang:token_usage; speed = sglang:gen_throughput; waiting requests ="
        " sglang:num_queue_reqs",
    ),
}
"""What to read in an engine's metrics."""

ALSO = (
    "guidellm and aiperf measure either engine from outside; iperf measures networks and curl one"
    " request",
    "nvidia-smi's utilisation only says that something ran: read DCGM's DRAM_ACTIVE and"
    " TENSOR_ACTIVE; decoding saturates memory, not tensor cores",
)


def benchmark_commands(
    model: str,
    *,
    input_tokens: int,
    output_tokens: int,
    users: int,
    overlap: float = 0.0,
) -> tuple[str, ...]:
    """Commands that measure speed, and prefix caching where prompts overlap, then what to read.

    Args:
        model: repository that the server runs.
        overlap: share of the prompt that requests have in common.

    Raises:
        InputError: a count below 1, an overlap outside 0 to 1.
    """
    for field, value in (
        ("input_tokens", input_tokens),
        ("output_tokens", output_tokens),
        ("users", users),
    ):
        if value < 1:
            raise InputError(f"{field} {value}: must be at least 1")
    if not 0 <= overlap <= 1:
        raise InputError(f"overlap {overlap}: must be from 0 to 1")
    prompts = max(LEAST_PROMPTS, users * ROUNDS)
    shared = min(round(input_tokens * overlap), input_tokens - 1)
    lines = [
        vllm_benchmark(model, input_tokens, output_tokens, users, prompts),
        sglang_benchmark(model, input_tokens, output_tokens, users, prompts),
    ]
    if shared > 0:
        rest = input_tokens - shared
        lines.append(_vllm_prefix(model, shared, rest, output_tokens, users, prompts))
        lines.append(_sglang_prefix(model, shared, rest, output_tokens, users, prompts))
    return (*lines, *READ["vllm"], *READ["sglang"])


def vllm_benchmark(model: str, inputs: int, outputs: int, users: int, prompts: int) -> str:
    """The load generator of vLLM with unrelated prompts of one length."""
    return _command(
        ("vllm", "bench serve"),
        ("--model", model),
        ("--dataset-name", "random"),
        ("--random-input-len", inputs),
        ("--random-output-len", outputs),
        ("--max-concurrency", users),
        ("--num-prompts", prompts),
        ("--ignore-eos",),
        ("--port", VLLM_PORT),
    )


def sglang_benchmark(model: str, inputs: int, outputs: int, users: int, prompts: int) -> str:
    """The load generator of SGLang with unrelated prompts of one length (range ratio 1)."""
    return _command(
        ("sglang", "bench_serving"),
        ("--backend", "sglang"),
        ("--model", model),
        ("--dataset-name", "random"),
        ("--random-input-len", inputs),
        ("--random-output-len", outputs),
        ("--random-range-ratio", 1),
        ("--max-concurrency", users),
        ("--num-prompts", prompts),
        ("--port", SGLANG_PORT),
    )


def _vllm_prefix(model: str, shared: int, rest: int, outputs: int, users: int, prompts: int) -> str:
    return _command(
        ("vllm", "bench serve"),
        ("--model", model),
        ("--dataset-name", "prefix_repetition"),
        ("--prefix-repetition-prefix-len", shared),
        ("--prefix-repetition-suffix-len", rest),
        ("--prefix-repetition-num-prefixes", PREFIX_GROUPS),
        ("--prefix-repetition-output-len", outputs),
        ("--max-concurrency", users),
        ("--num-prompts", prompts),
        ("--ignore-eos",),
        ("--port", VLLM_PORT),
    )


def _sglang_prefix(
    model: str, shared: int, rest: int, outputs: int, users: int, prompts: int
) -> str:
    return _command(
        ("sglang", "bench_serving"),
        ("--backend", "sglang"),
        ("--model", model),
        ("--dataset-name", "generated-shared-prefix"),
        ("--gsp-num-groups", PREFIX_GROUPS),
        ("--gsp-prompts-per-group", max(1, prompts // PREFIX_GROUPS)),
        ("--gsp-system-prompt-len", shared),
        ("--gsp-question-len", rest),
        ("--gsp-output-len", outputs),
        ("--max-concurrency", users),
        ("--port", SGLANG_PORT),
    )


def _command(tool: tuple[str, str], *pairs: tuple[str | int, ...]) -> str:
    words = [*STARTS[tool], *(str(word) for pair in pairs for word in pair)]
    return shlex.join(words)
