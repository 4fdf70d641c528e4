"""Prefix caching: how much of a prompt is reused, whether it is still there, and what that saves.

Both engines reuse keys and values of a prompt's beginning, from token 0 on. vLLM finds them by a
hash per block (chained from the first block), SGLang in a radix tree of pages. Granularity costs
at most ``block - 1`` tokens, so big differences between engines come from eviction, pool size and
scheduling, not from the data structure. Decoding is never accelerated.
"""

from __future__ import annotations

import math

from core.errors import InputError

VLLM_BLOCK = 16
"""Default block; hybrids raise it (784 tokens and more)."""
SGLANG_PAGE = 1
"""Default page; FlashMLA and TRT-LLM MLA backends force 64 or 32."""

GRANULARITY = {"vllm": VLLM_BLOCK, "sglang": SGLANG_PAGE}

DATA_STRUCTURE = {
    "vllm": "a table of block hashes: whole blocks of 16 tokens, each hash covering all before it",
    "sglang": "a radix tree: any common beginning, in pages of 1 token or what the backend asks",
}

OVERLAP_CHOICES = {"none": 0.0, "some": 0.5, "most": 0.75}
"""For people who cannot measure: unique prompts, half shared, agents or few-shot templates."""


def reused_tokens(engine: str, shared: int, prompt: int, *, granularity: int | None = None) -> int:
    """Prompt tokens that need no prefill when ``shared`` of them were seen before.

    ``floor(min(shared, prompt - 1) / block) x block``: the last token is always computed.

    Args:
        granularity: block or page size in tokens where it is not the engine's default.

    Raises:
        InputError: unknown engine, negative counts, a prompt shorter than what it shares.
    """
    size = _granularity(engine) if granularity is None else granularity
    if size < 1:
        raise InputError(f"block size {size}: must be at least 1 token")
    if prompt < 1:
        raise InputError(f"prompt {prompt}: must be at least 1 token")
    if not 0 <= shared <= prompt:
        raise InputError(f"shared prefix {shared}: must be from 0 to the prompt's {prompt} tokens")
    return min(shared, prompt - 1) // size * size


def residency(
    *, distinct_prefixes: float, prefix_tokens: float, live_tokens: float, pool_tokens: float
) -> float:
    """Probability that a prefix is still cached when it is needed, 0 to 1.

    1 while all prefixes and the live requests fit in the pool; beyond, least-recently-used
    eviction under equal popularity: the pool's rest divided by the working set. Skewed popularity
    does better.

    Raises:
        InputError: a negative or infinite size.
    """
    sizes = {
        "distinct_prefixes": distinct_prefixes,
        "prefix_tokens": prefix_tokens,
        "live_tokens": live_tokens,
        "pool_tokens": pool_tokens,
    }
    for field, value in sizes.items():
        if not 0 <= value < math.inf:
            raise InputError(f"{field} {value}: must be 0 or more and finite")
    working_set = distinct_prefixes * prefix_tokens
    if working_set + live_tokens <= pool_tokens:
        return 1.0
    if working_set == 0:
        return 1.0
    return min(1.0, max(0.0, pool_tokens - live_tokens) / working_set)


def hit_rate(
    engine: str,
    *,
    shared: int,
    prompt: int,
    resident: float = 1.0,
    granularity: int | None = None,
) -> float:
    """Share of prompt tokens found in the cache: never above the overlap itself.

    Raises:
        InputError: as ``reused_tokens``; ``resident`` outside 0 to 1.
    """
    if not 0 <= resident <= 1:
        raise InputError(f"resident {resident}: must be from 0 to 1, a probability")
    return resident * reused_tokens(engine, shared, prompt, granularity=granularity) / prompt


def conversation_share(system: int, user: int, answer: int, turn: int) -> float:
    """Share of turn ``turn``'s prompt that the turn before left in the cache.

    ``(s + (n-1)(u+a)) / (s + (n-1)(u+a) + u)``: the system prompt and all turns so far. Turn 1
    shares the system prompt with other conversations.

    Raises:
        InputError: counts below their minimum.
    """
    if turn < 1 or user < 1 or system < 0 or answer < 0:
        raise InputError(
            f"conversation: turn {turn} and user tokens {user} must be at least 1, system {system}"
            f" and answer {answer} at least 0"
        )
    past = system + (turn - 1) * (user + answer)
    return past / (past + user)


def most_gain(prefill_share: float) -> float:
    """Largest speed-up of whole requests by a perfect cache: ``1 / (1 - share) - 1`` (Amdahl).

    Raises:
        InputError: a share outside 0 (included) to 1 (excluded).
    """
    if not 0 <= prefill_share < 1:
        raise InputError(f"prefill share {prefill_share}: must be from 0 to below 1")
    return 1 / (1 - prefill_share) - 1


def explain(engine: str) -> str:
    """How an engine finds cached prefixes, in a sentence.

    Raises:
        InputError: unknown engine.
    """
    _granularity(engine)
    return f"{engine} finds prefixes in {DATA_STRUCTURE[engine]}"


def _granularity(engine: str) -> int:
    try:
        return GRANULARITY[engine]
    except KeyError:
        raise InputError(
            f"engine {engine!r}: not known; use one of {', '.join(GRANULARITY)}"
        ) from None
