"""Commands that start a server: vLLM and SGLang, plain and in a container.

Only flags of the table, plain integers, ASCII, shell-quoted, no flag that equals the engine's
default. Where we do not know a name (a repository with quantized weights, an image for AMD or
Gaudi) the command holds a shell variable that must be set: the shell stops and says so.
"""

from __future__ import annotations

import json
import shlex
from dataclasses import dataclass

from core.errors import InputError
from core.gpus import Gpu
from optimizer.engine_flags import SGLANG_VERSION, STARTS, VLLM_VERSION, flags
from optimizer.models import BF16_BYTES, ModelSpec
from optimizer.parallel import check_parallel, needs_expert_parallel
from optimizer.weights import weight_format

VLLM_IMAGE = f"vllm/vllm-openai:v{VLLM_VERSION}"
SGLANG_IMAGE = f"lmsysorg/sglang:v{SGLANG_VERSION}"
VLLM_PORT = 8000
SGLANG_PORT = 30000

GATED = ("meta-llama/", "google/gemma", "CohereForAI/")
"""Repositories that want an accepted licence and a token."""

QUANTIZED = {
    ("meta-llama/Llama-3.3-70B-Instruct", "fp8"): "nvidia/Llama-3.3-70B-Instruct-FP8",
    ("Qwen/Qwen2.5-7B-Instruct", "awq"): "Qwen/Qwen2.5-7B-Instruct-AWQ",
    ("Qwen/Qwen2.5-14B-Instruct", "awq"): "Qwen/Qwen2.5-14B-Instruct-AWQ",
    ("Qwen/Qwen2.5-32B-Instruct", "awq"): "Qwen/Qwen2.5-32B-Instruct-AWQ",
    ("Qwen/Qwen2.5-72B-Instruct", "awq"): "Qwen/Qwen2.5-72B-Instruct-AWQ",
    ("Qwen/Qwen2.5-Coder-32B-Instruct", "awq"): "Qwen/Qwen2.5-Coder-32B-Instruct-AWQ",
}
"""Repositories whose names our sources state; any other name must come from the user."""

ROPE_THETA = {"Qwen2.5": 1_000_000.0}
"""Base of the rotary embedding by family: an override replaces the whole dict, base included."""

_NVIDIA_RUN = ("--gpus", "all")
_AMD_RUN = (
    "--device",
    "/dev/kfd",
    "--device",
    "/dev/dri",
    "--group-add",
    "video",
    "--security-opt",
    "seccomp=unconfined",
)


@dataclass(frozen=True, kw_only=True)
class LaunchRequest:
    """What the server must be able to do.

    Attributes:
        weights: weight format; None for the published one.
        repository: what holds the weights in that format, where the user knows it.
        kv: ``bf16`` or ``fp8``.
        context: tokens per request; None for the model's own limit.
        users: requests at the same time; caps the scheduler; None for the engine's default.
        pool_tokens: tokens the KV pool holds, to warn about a context that does not fit.
        utilization: vLLM's share of memory; None for its default.
        batched_tokens: vLLM's tokens per step; None for its default.
        latent_split: ranks that share an MLA cache (decode context or attention data parallel).
        prefix_cache: off only when asked.
        first_token: whether first-token time matters: SGLang then serves cached prefixes first.
    """

    model: ModelSpec
    gpu: Gpu
    weights: str | None = None
    repository: str | None = None
    kv: str = "bf16"
    context: int | None = None
    users: int | None = None
    tensor_parallel: int = 1
    pipeline_parallel: int = 1
    pool_tokens: int | None = None
    utilization: float | None = None
    batched_tokens: int | None = None
    latent_split: int = 1
    prefix_cache: bool = True
    first_token: bool = False
    eager: bool = False

    def __post_init__(self) -> None:
        """Refuse what no server could start with."""
        check_parallel(self.model, self.tensor_parallel, self.pipeline_parallel)
        weight_format(self.format)
        if self.kv not in ("bf16", "fp16", "fp8"):
            raise InputError(f"kv dtype {self.kv!r}: use bf16 or fp8")
        for field in ("context", "users", "batched_tokens", "latent_split"):
            value = getattr(self, field)
            if value is not None and value < 1:
                raise InputError(f"{field} {value}: must be at least 1")
        if self.utilization is not None and not 0 < self.utilization <= 1:
            raise InputError(f"utilization {self.utilization}: must be above 0 and at most 1")
        limit = max(self.model.max_context, self.model.yarn_context or 0)
        if self.context is not None and self.context > limit:
            raise InputError(
                f"context {self.context:,}: {self.model.id} is made for {limit:,} tokens"
            )
        if self.latent_split > 1 and (
            not self.model.is_mla or self.tensor_parallel % self.latent_split
        ):
            raise InputError(
                f"latent_split {self.latent_split}: needs latent attention and must divide the"
                f" tensor-parallel size {self.tensor_parallel}"
            )
        if self.repository is not None and (
            not self.repository.isascii() or self.repository.split() != [self.repository]
        ):
            raise InputError(
                f"repository {self.repository!r}: must be one plain name, e.g. org/name"
            )

    @property
    def format(self) -> str:
        """Name of the weight format."""
        return self.weights or self.model.native_format

    @property
    def rope_factor(self) -> float | None:
        """YaRN factor for the asked context; None within the model's native limit."""
        if self.context is None or self.context <= self.model.max_context:
            return None
        return float(self.model.yarn_context or self.context) / self.model.max_context


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """One engine's way to start.

    Attributes:
        plain: for a machine with the engine installed.
        container: the same in Docker, image pinned.
        version: of the engine that the flags were checked against.
        warnings: what to know before running it.
    """

    engine: str
    version: str
    plain: str
    container: str
    warnings: tuple[str, ...]


def vllm_command(request: LaunchRequest) -> Command:
    """The command for vLLM."""
    warnings = list(_warnings(request, "vllm"))
    source, online = _weights(request)
    options: list[str | int | float] = []
    if request.tensor_parallel > 1:
        options += ["--tensor-parallel-size", request.tensor_parallel]
    if request.pipeline_parallel > 1:
        options += ["--pipeline-parallel-size", request.pipeline_parallel]
    if request.latent_split > 1:
        options += ["--decode-context-parallel-size", request.latent_split]
    if _deals_experts(request):
        options.append("--enable-expert-parallel")
    if request.context is not None and request.context != request.model.max_context:
        options += ["--max-model-len", request.context]
    if request.kv == "fp8":
        options += ["--kv-cache-dtype", "fp8"]
    if online:
        options += ["--quantization", request.format]
    if request.utilization is not None and not _is_default("vllm", request.utilization):
        options += ["--gpu-memory-utilization", request.utilization]
    if request.users is not None:
        options += ["--max-num-seqs", request.users]
    if request.batched_tokens is not None:
        options += ["--max-num-batched-tokens", request.batched_tokens]
    if not request.prefix_cache:
        options.append("--no-enable-prefix-caching")
    if request.eager:
        options.append("--enforce-eager")
    if (rope := _rope(request)) is not None:
        options += ["--hf-overrides", json.dumps({"rope_parameters": rope})]
    quoted = " ".join([source, *_quoted(options)])
    image = _image(request.gpu, "vllm")
    run = _docker(request, VLLM_PORT, "vllm")
    return Command(
        engine="vllm",
        version=VLLM_VERSION,
        plain=f"vllm serve {quoted}",
        container=f"{run} --entrypoint vllm {image} serve {quoted}",
        warnings=tuple(warnings),
    )


def sglang_command(request: LaunchRequest) -> Command:
    """The command for SGLang."""
    source, online = _weights(request)
    options: list[str | int | float] = []
    if request.tensor_parallel > 1:
        options += ["--tp-size", request.tensor_parallel]
    if request.pipeline_parallel > 1:
        options += ["--pp-size", request.pipeline_parallel]
    if request.latent_split > 1:
        options += ["--attn-dp-size", request.latent_split]
    if _deals_experts(request):
        options += ["--ep-size", request.tensor_parallel]
    if request.context is not None and request.context != request.model.max_context:
        options += ["--context-length", request.context]
    if request.kv == "fp8":
        options += ["--kv-cache-dtype", "fp8_e4m3"]
    if online:
        options += ["--quantization", request.format]
    if request.users is not None:
        options += ["--max-running-requests", request.users]
    if not request.prefix_cache:
        options.append("--disable-radix-cache")
    elif request.first_token:
        options += ["--schedule-policy", "lpm"]
    if (rope := _rope(request)) is not None:
        override = {"rope_parameters": rope, "max_position_embeddings": request.context}
        options += ["--json-model-override-args", json.dumps(override)]
    quoted = " ".join(["--model-path", source, *_quoted(options)])
    image = _image(request.gpu, "sglang")
    run = _docker(request, SGLANG_PORT, "sglang")
    start = " ".join(STARTS["sglang", "serve"])
    return Command(
        engine="sglang",
        version=SGLANG_VERSION,
        plain=f"{start} {quoted}",
        container=f"{run} {image} {start} {quoted} --host 0.0.0.0",
        warnings=_warnings(request, "sglang"),
    )


def _weights(request: LaunchRequest) -> tuple[str, bool]:
    """The quoted repository, and whether the engine must quantize while loading."""
    model, name = request.model, request.format
    if request.repository is not None:
        return shlex.quote(request.repository), False
    if (known := QUANTIZED.get((model.id, name))) is not None:
        return known, False
    if name == model.native_format or weight_format(name).element_bytes == BF16_BYTES:
        return shlex.quote(model.id), False
    if name == "fp8" and model.native_format in ("bf16", "fp16"):
        return shlex.quote(model.id), True
    return f'"${{QUANTIZED_MODEL:?set it to a repository with {name} weights}}"', False


def _rope(request: LaunchRequest) -> dict[str, object] | None:
    factor, theta = request.rope_factor, ROPE_THETA.get(request.model.family)
    if factor is None or theta is None:
        return None
    return {
        "rope_type": "yarn",
        "rope_theta": theta,
        "factor": factor,
        "original_max_position_embeddings": request.model.max_context,
    }


def _deals_experts(request: LaunchRequest) -> bool:
    return needs_expert_parallel(request.model, request.format, request.tensor_parallel)


def _is_default(engine: str, utilization: float) -> bool:
    return float(flags(engine)["--gpu-memory-utilization"].default) == utilization


def _image(gpu: Gpu, engine: str) -> str:
    if gpu.vendor == "NVIDIA":
        return VLLM_IMAGE if engine == "vllm" else SGLANG_IMAGE
    version = VLLM_VERSION if engine == "vllm" else SGLANG_VERSION
    return (
        f'"${{{engine.upper()}_IMAGE:?set it to an image of {engine} {version} for {gpu.vendor}'
        f' {gpu.architecture}}}"'
    )


def _docker(request: LaunchRequest, port: int, engine: str) -> str:
    words = ["docker", "run", "--rm"]
    words += _NVIDIA_RUN if request.gpu.vendor == "NVIDIA" else ()
    words += _AMD_RUN if request.gpu.vendor == "AMD" else ()
    words += ["--ipc=host", "-p", f"{port}:{port}"]
    words += ["-v", '"$HOME/.cache/huggingface:/root/.cache/huggingface"']
    if engine == "vllm":
        words += ["-v", '"$HOME/.cache/vllm:/root/.cache/vllm"']
    if _is_gated(request):
        words += ["--env", "HF_TOKEN"]
    return " ".join(words)


def _is_gated(request: LaunchRequest) -> bool:
    return _weights(request)[0].startswith((*GATED, '"$'))


def _warnings(request: LaunchRequest, engine: str) -> tuple[str, ...]:
    notes = []
    source, online = _weights(request)
    if source.startswith('"$'):
        notes.append(
            f"set QUANTIZED_MODEL to a repository with {request.format} weights of"
            f" {request.model.id}; we know of none by name"
        )
    if online:
        notes.append("fp8 while loading: reads the 16-bit checkpoint, twice the bytes")
    if _is_gated(request):
        notes.append("the repository is gated: accept its licence and set HF_TOKEN")
    if request.rope_factor is not None:
        known = "" if _rope(request) else "; its rope override is not known, see the model card"
        notes.append(
            f"{request.context:,} tokens exceed the native {request.model.max_context:,}: YaRN"
            f" factor {request.rope_factor:g}, quality on short texts may suffer{known}"
        )
    context = request.context or request.model.max_context
    if request.pool_tokens is not None and context > request.pool_tokens:
        notes.append(
            f"a request of {context:,} tokens does not fit the pool of {request.pool_tokens:,}:"
            " the engine refuses to start; ask for less context"
        )
    if request.kv == "fp8":
        notes.append(
            "fp8 cache: scale 1.0 is a start; for production calibrate a checkpoint with"
            " llm-compressor and test retrieval, not only perplexity"
        )
    if request.model.is_mla and request.tensor_parallel > 1 and request.latent_split == 1:
        notes.append("every rank holds the whole latent cache: consider splitting it")
    if request.gpu.vendor != "NVIDIA":
        notes.append(f"set the image for {request.gpu.vendor}: its name is not pinned here")
    if engine == "sglang":
        notes.append("add --enable-metrics --enable-cache-report to see cache hits")
    return tuple(notes)


def _quoted(words: list[str | int | float]) -> list[str]:
    return [shlex.quote(str(word)) for word in words]
