"""How fast one replica is: step time, prefill, TTFT, TPOT and tokens per second.

A decode step reads the weights once and every sequence's cache once, or is bound by FLOP/s; to
that come fixed times and communication. A prompt is compute-bound. Under continuous batching
with chunked prefill each output token pays its share of the prompts::

    mem     = W / TP / (BW x eta_w) + B x kv(context) / (BW x eta_kv)
    flop    = B x 2 x P_active / (TP x PEAK x mfu)
    decode  = max(mem, flop) + t0 + B x t_seq + layers x (t_layer + t_hop x log2 TP) + comm
    t_token = 2 x P_active / (TP x PEAK x mfu) + comm of one token
    step    = decode + B x input x (1 - hit) / output x t_token          = TPOT
    tokens per second = B / step

``W``: bytes read per step, without the input table; of routed experts the share
``1 - (1 - k/E)^B`` that a batch touches. The bound ``eta = mfu = 1`` without fixed times is never
exceeded. Times are seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum

from optimizer.kv_cache import sequence_bytes
from optimizer.models import BF16_BYTES, ModelSpec
from optimizer.performance import (
    UPPER_BOUND,
    Constants,
    Replica,
    Traffic,
    outside_calibration,
)
from optimizer.weights import Scope, weight_format

GIGA = 10**9
TERA = 10**12
REDUCES_PER_LAYER = 2
PCIE_REDUCE_SECONDS = 75e-6
"""Latency of one all-reduce without NVLink: fitted on one point (Qwen3-235B on 8 L40S)."""
PCIE_GB_S = 25.0
"""One direction of PCIe 4 x16 in practice; estimate."""
PREFILL_SLACK = 1.15
FIRST_TOKEN_SECONDS = 0.045
"""HTTP, tokenizer, scheduling and the first decode step under light load."""
LONG_PROMPT = 8192
"""Below this attention FLOPs are negligible for models of 8B and more."""

BAND = {False: 0.15, True: 0.35}
BAND_OUTSIDE = {False: 0.35, True: 0.50}
"""Half-widths by "is a mixture of experts": about nine of ten measured rows left out of the fit."""
BAND_MEASURED = 0.15
"""Runs of the same set-up in different collections differ by 6 % in the mean, 15 % at p90."""


class Basis(StrEnum):
    """Where a number comes from."""

    MEASURED = "measured"
    CALIBRATED = "calibrated"
    EXTRAPOLATED = "extrapolated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """Speed of one replica in steady state.

    Attributes:
        decode_seconds: one decode step without prompts.
        step_seconds: with the prompts' share; this is TPOT.
        token_seconds: one prefilled token.
        ttft_seconds: first token under light load, prefix hits included.
        output_tokens_per_s, total_tokens_per_s: of the replica; total counts prompt tokens too.
        roofline_tokens_per_s: the hard upper bound of ``output_tokens_per_s``.
        bound: ``bandwidth`` or ``compute``, whichever limits decoding.
        prefill_share: share of time spent on prompts; prefix caching cannot save more.
        basis, band: where the numbers come from and the half-width of their band (0.15 = 15 %).
        notes: why the basis is not "calibrated", and other remarks.
    """

    decode_seconds: float
    step_seconds: float
    token_seconds: float
    ttft_seconds: float
    output_tokens_per_s: float
    total_tokens_per_s: float
    roofline_tokens_per_s: float
    bound: str
    prefill_share: float
    basis: Basis
    band: float
    notes: tuple[str, ...] = ()

    @property
    def tpot_seconds(self) -> float:
        """Time per output token that a user sees."""
        return self.step_seconds

    @property
    def low_tokens_per_s(self) -> float:
        """Low end of the band of ``output_tokens_per_s``."""
        return self.output_tokens_per_s * (1 - self.band)

    @property
    def high_tokens_per_s(self) -> float:
        """High end of the band; never above the roofline."""
        return min(self.output_tokens_per_s * (1 + self.band), self.roofline_tokens_per_s)


def estimate(replica: Replica, traffic: Traffic) -> Estimate:
    """Predict the speed of ``replica`` under ``traffic``.

    Raises:
        InputError: a size that decides the cache is not known for the model.
    """
    constants = replica.used_constants
    decode = decode_seconds(replica, traffic, constants)
    token = token_seconds(replica, traffic.input_tokens, constants)
    step = decode + prefill_per_step(replica, traffic, token)
    reasons = outside_calibration(replica, traffic)
    moe = replica.model.is_moe
    output = traffic.users / step
    return Estimate(
        decode_seconds=decode,
        step_seconds=step,
        token_seconds=token,
        ttft_seconds=ttft_light(replica, traffic, token, decode),
        output_tokens_per_s=output,
        total_tokens_per_s=output * (1 + traffic.input_tokens / traffic.output_tokens),
        roofline_tokens_per_s=roofline_tokens_per_s(replica, traffic),
        bound=decode_bound(replica, traffic),
        prefill_share=1 - decode / step,
        basis=Basis.EXTRAPOLATED if reasons else Basis.CALIBRATED,
        band=BAND_OUTSIDE[moe] if reasons else BAND[moe],
        notes=reasons,
    )


def roofline_tokens_per_s(replica: Replica, traffic: Traffic) -> float:
    """Output tokens per second that no server can exceed (eta = mfu = 1, nothing fixed)."""
    decode = decode_seconds(replica, traffic, UPPER_BOUND)
    token = token_seconds(replica, traffic.input_tokens, UPPER_BOUND)
    return traffic.users / (decode + prefill_per_step(replica, traffic, token))


def decode_seconds(replica: Replica, traffic: Traffic, constants: Constants) -> float:
    """One decode step of the running batch, no prompts.

    With pipeline stages the batch is dealt out: each part passes all layers, parts overlap.
    """
    model, tp = replica.model, replica.tensor_parallel
    batch = traffic.users / replica.pipeline_parallel
    memory = _memory_seconds(replica, traffic, batch, constants)
    compute = batch * flops_per_token(model) / (tp * peak_flops(replica, constants) * constants.mfu)
    fixed = constants.step_seconds + batch * constants.sequence_seconds
    layers = model.layers * (constants.layer_seconds + _hop_seconds(replica, constants))
    return max(memory, compute) + fixed + layers + batch * _link_seconds(replica, constants)


def token_seconds(replica: Replica, input_tokens: int, constants: Constants) -> float:
    """Time of one prefilled token: compute plus communication."""
    model = replica.model
    flops = flops_per_token(model) + attention_flops(model, input_tokens)
    rate = replica.tensor_parallel * peak_flops(replica, constants) * constants.mfu
    return flops / rate + _link_seconds(replica, constants)


def prefill_per_step(replica: Replica, traffic: Traffic, token: float) -> float:
    """Prompt time that one decode step carries in steady state; stages share it."""
    prompts = traffic.users * traffic.input_tokens * (1 - traffic.hit) / traffic.output_tokens
    return prompts * token / replica.pipeline_parallel


def ttft_light(replica: Replica, traffic: Traffic, token: float, decode: float) -> float:
    """Time to first token under light load: prefill of what is not cached, at least one step."""
    prefill = PREFILL_SLACK * traffic.input_tokens * (1 - traffic.hit) * token
    return max(prefill + FIRST_TOKEN_SECONDS, decode)


def decode_bound(replica: Replica, traffic: Traffic) -> str:
    """Whether decoding is bound by ``bandwidth`` or by ``compute``."""
    constants = replica.used_constants
    batch = traffic.users / replica.pipeline_parallel
    memory = _memory_seconds(replica, traffic, batch, constants)
    rate = replica.tensor_parallel * peak_flops(replica, constants) * constants.mfu
    return "compute" if batch * flops_per_token(replica.model) / rate > memory else "bandwidth"


def ridge_batch(replica: Replica, constants: Constants | None = None) -> float:
    """Sequences at which reading dense weights takes as long as computing with them.

    ``PEAK x mfu x bytes per parameter / (2 x BW x eta)``; the cache is left out.
    """
    used = constants or replica.used_constants
    width = float(weight_format(replica.weights).bytes_per_param())
    peak = peak_flops(replica, used) * used.mfu
    return peak * width / (2 * _bandwidth(replica) * used.eta_weights)


def flops_per_token(model: ModelSpec) -> float:
    """``2 x`` active parameters without the input table, which is looked up, not multiplied."""
    table = 0 if model.tied_embeddings else (model.embed_params or 0)
    return 2.0 * (model.params_active - table)


def attention_flops(model: ModelSpec, input_tokens: int) -> float:
    """Extra FLOPs per prompt token of attention over a long prompt.

    ``4 x layers x heads x head_dim x context``, of the mean context beyond 8K tokens.
    """
    beyond = max(0, input_tokens - LONG_PROMPT) / 2
    layers = model.full_attention_layers
    width = model.attention_heads * (model.full_head_dim or model.hidden // model.attention_heads)
    return 4.0 * (model.layers if layers is None else layers) * width * beyond


def read_bytes(model: ModelSpec, weights: str, batch: float) -> float:
    """Bytes of weights that one step of ``batch`` sequences reads."""
    chosen = weight_format(weights)
    width = float(chosen.bytes_per_param())
    moe = model.is_moe
    dense = model.params_total - model.embedding_params_stored - model.routed_expert_params
    dense_width = BF16_BYTES if chosen.scope is Scope.EXPERTS and moe else width
    head_width = width if chosen.scope is Scope.ALL else BF16_BYTES
    touched = 1 - (1 - model.experts_per_token / model.experts) ** batch if moe else 0.0
    head = (model.embed_params or 0) * head_width
    return dense * dense_width + head + model.routed_expert_params * width * touched


def peak_flops(replica: Replica, constants: Constants) -> float:
    """Dense FLOP/s of one card in the dtype that the weight format computes in.

    Formats of 4-bit integers compute in 16 bit. fp8 and nvfp4 need a card with such units, mxfp4
    on a card with fp4 units runs its activations in fp8. ``narrow_gain`` says how much of a
    format's advantage arrives.
    """
    gpu = replica.gpu
    wide = gpu.bf16_tflops or gpu.fp16_tflops
    if wide is None:
        return 0.0
    narrow = wide
    if replica.weights.startswith(("fp8", "int8")):
        narrow = gpu.fp8_tflops or wide
    elif replica.weights == "nvfp4":
        narrow = gpu.fp4_tflops or wide
    elif replica.weights == "mxfp4" and gpu.fp4_tflops:
        narrow = gpu.fp8_tflops or wide
    return float(wide) * TERA * math.pow(float(narrow / wide), constants.narrow_gain)


def with_users(traffic: Traffic, users: int) -> Traffic:
    """Return the same traffic with another running batch."""
    return replace(traffic, users=users)


def running_batch(
    users: int,
    *,
    pool_requests: float,
    max_num_seqs: int | None = None,
) -> int:
    """Requests that decode at the same time: what users ask, capped by cache and scheduler.

    Args:
        pool_requests: requests of the asked length that the KV pool holds at once.
    """
    caps = [users, math.floor(pool_requests)]
    if max_num_seqs is not None:
        caps.append(max_num_seqs)
    return max(0, min(caps))


def _bandwidth(replica: Replica) -> float:
    return float(replica.gpu.bandwidth_gb_s or 0) * GIGA


def _memory_seconds(
    replica: Replica, traffic: Traffic, batch: float, constants: Constants
) -> float:
    bandwidth = _bandwidth(replica)
    weights = read_bytes(replica.model, replica.weights, batch) / replica.tensor_parallel
    cache = batch * sequence_bytes(
        replica.model,
        math.ceil(traffic.mean_context),
        replica.kv,
        tensor_parallel=replica.tensor_parallel,
    )
    return weights / (bandwidth * constants.eta_weights) + cache / (bandwidth * constants.eta_kv)


def _hop_seconds(replica: Replica, constants: Constants) -> float:
    """Latency of a layer's all-reduces; without links it replaces the calibrated one."""
    if replica.tensor_parallel == 1 or constants.free_links:
        return 0.0
    if not replica.has_links:
        return REDUCES_PER_LAYER * PCIE_REDUCE_SECONDS
    return constants.hop_seconds * math.log2(replica.tensor_parallel)


def _link_seconds(replica: Replica, constants: Constants) -> float:
    """Transfer time of one token's activations through all layers."""
    tp = replica.tensor_parallel
    if tp == 1 or constants.free_links:
        return 0.0
    both_ways = replica.gpu.nvlink_gb_s if replica.has_links else None
    link = (float(both_ways) / 2 if both_ways else PCIE_GB_S) * GIGA
    model = replica.model
    sent = REDUCES_PER_LAYER * model.layers * model.hidden * BF16_BYTES
    return sent * 2 * (tp - 1) / tp / link
