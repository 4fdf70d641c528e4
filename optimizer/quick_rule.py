"""The articles' rule of thumb, kept so that it can be shown beside the exact answer.

``weights (GB) + KV cache (GiB, called GB) + 2 <= memory as marketed``. It mixes units, trusts the
marketed size, knows no engine share and pools the memory of several cards.
"""

from __future__ import annotations

from dataclasses import dataclass

from core.gpus import Gpu
from core.units import GB, GIB
from optimizer.models import ModelSpec
from optimizer.weights import weight_format

OVERHEAD_GB = 2.0
HEADROOM_SHARE = 0.20


@dataclass(frozen=True, slots=True, kw_only=True)
class QuickCheck:
    """The rule's numbers, in its own mixed units.

    Attributes:
        weights_gb: parameters x nominal bytes of the format, GB.
        kv_gib: cache of all requests, GiB, which the rule adds as if it were GB.
        vram_gb: marketed memory of all cards, GB.
        budget_tokens: tokens per request that the rule leaves room for, read as decimal GB.
    """

    weights_gb: float
    kv_gib: float
    vram_gb: float
    budget_tokens: int

    @property
    def total_gb(self) -> float:
        """Weights, cache and 2 GB."""
        return self.weights_gb + self.kv_gib + OVERHEAD_GB

    @property
    def fits(self) -> bool:
        """The rule's verdict."""
        return self.total_gb <= self.vram_gb

    @property
    def fits_with_headroom_rule(self) -> bool:
        """The other rule of the articles: weights plus 20 % must fit."""
        return self.weights_gb * (1 + HEADROOM_SHARE) <= self.vram_gb


def quick_check(
    model: ModelSpec,
    gpu: Gpu,
    gpu_count: int,
    weights: str,
    kv_bytes_per_token: int,
    context: int,
    concurrency: int,
) -> QuickCheck:
    """Apply the rule.

    Args:
        weights: weight format; the rule uses its nominal bytes for every parameter.
        kv_bytes_per_token: of the whole model, unsplit.
    """
    weights_gb = float(model.params_total * weight_format(weights).element_bytes) / GB
    vram_gb = float(gpu.vram_gb) * gpu_count
    left = (vram_gb - weights_gb - OVERHEAD_GB) * GB
    per_token = kv_bytes_per_token * concurrency
    return QuickCheck(
        weights_gb=weights_gb,
        kv_gib=per_token * context / GIB,
        vram_gb=vram_gb,
        budget_tokens=max(0, round(left / per_token)) if per_token else 0,
    )
