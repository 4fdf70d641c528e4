"""SGLang's memory share: ``mem-fraction-static`` covers weights and cache together.

The cache gets ``free after loading - (1 - f) x free before``: raising ``f`` grows it, lowering it
leaves room for activations and graphs. vLLM counts activations inside its share, SGLang outside,
so the two engines' pools are not comparable at their defaults. Source: SGLang 0.5.23.
"""

from __future__ import annotations

from core.errors import InputError

_MIB = 2**20
_LARGE_MIB = 60 * 1024
_LARGE_RESERVE_MIB = 10_240
_DP_BATCH_LARGE = 300

# Upper bound of GPU memory (MiB), chunked prefill, largest decode graph batch (TP < 4, TP >= 4).
_TABLE = (
    (20 * 1024, 2_048, 8, 8),
    (35 * 1024, 4_096, 48, 160),
    (60 * 1024, 4_096, 32, 160),
    (160 * 1024, 8_192, 256, 512),
)
_LARGEST = (16_384, 512)


def prefill_and_batch(vram_bytes: int, tensor_parallel: int) -> tuple[int, int]:
    """Return SGLang's default chunked-prefill size and largest decode graph batch."""
    for bound, prefill, small, large in _TABLE:
        if vram_bytes < bound * _MIB:
            return prefill, small if tensor_parallel < 4 else large
    return _LARGEST


def automatic_fraction(
    vram_bytes: int,
    *,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    mla: bool = False,
    post_capture: bool = True,
    prefill_graph_sizes: int = 0,
    dp_attention: int = 1,
) -> float:
    """Return the ``mem-fraction-static`` that SGLang picks when none is given.

    Args:
        mla: latent attention; it uses the classic rule.
        post_capture: cache sized after graph capture, as recent CUDA builds do.
        prefill_graph_sizes: number of captured prefill sizes (classic rule, 8 MiB each).
        dp_attention: data-parallel ranks of the attention.

    Raises:
        InputError: the reserve leaves nothing of the card.
    """
    total_mib = vram_bytes / _MIB
    group = tensor_parallel * pipeline_parallel / 8 * 1024
    prefill, batch = prefill_and_batch(vram_bytes, tensor_parallel)
    if post_capture and not mla:
        reserved = 1536 + group
    else:
        reserved = 512 + 1.5 * max(prefill, 2048) + group + 2 * batch
        reserved += 1536 if mla else 8 * prefill_graph_sizes
        if total_mib > _LARGE_MIB:
            reserved = max(reserved, _LARGE_RESERVE_MIB)
    if dp_attention > 1:
        reserved += batch * dp_attention * (3 + (1.5 if batch > _DP_BATCH_LARGE else 0))
    if reserved >= total_mib:
        raise InputError(
            f"mem-fraction-static: SGLang reserves {reserved:.0f} MiB, the card has"
            f" {total_mib:.0f} MiB; use a bigger card"
        )
    return (total_mib - reserved) / total_mib


def pool_bytes(free_before: int, weight_bytes: int, fraction: float) -> int:
    """Bytes for the cache; negative where weights exceed the share.

    Args:
        free_before: free bytes on the card before loading.
        fraction: ``mem-fraction-static``.

    Raises:
        InputError: a fraction outside 0 to 1.
    """
    if not 0 < fraction < 1:
        raise InputError(f"mem-fraction-static {fraction}: must be above 0 and below 1")
    return int(free_before - weight_bytes - (1 - fraction) * free_before)
