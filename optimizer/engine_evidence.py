"""Published comparisons of vLLM and SGLang: other people's measurements, dated, never our own.

They support a choice or speak against it; contradictions are kept, and what makes a row doubtful
is said beside it.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

STALE_AFTER = timedelta(days=365)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One comparison.

    Attributes:
        favours: ``vllm``, ``sglang``, ``tie``, or ``both`` (a crossover: each in its range).
        topic: ``prefix`` (shared prompts), ``unique`` (no shared prompts), ``short`` (short
            prompts, throughput), ``gb10``, ``platform``, ``capacity``.
        vllm, sglang: the two figures where there are two, in ``unit``.
        engine_date: when the compared engine versions were current; None when not stated.
        throughput_kind: ``output``, ``total`` or ``unknown`` where a figure counts tokens.
        trouble: why the row must be read with care; "" when nothing is known against it.
    """

    key: str
    favours: str
    topic: str
    text: str
    source: str
    engine_date: date | None
    hardware: str
    vllm: float | None = None
    sglang: float | None = None
    unit: str = ""
    throughput_kind: str = "unknown"
    trouble: str = ""

    def is_stale(self, today: date) -> bool:
        """Whether the compared versions are older than twelve months, or not dated at all."""
        return self.engine_date is None or today - self.engine_date > STALE_AFTER

    @property
    def ratio(self) -> float | None:
        """Larger figure over smaller; None without two figures."""
        if self.vllm is None or self.sglang is None:
            return None
        return max(self.vllm, self.sglang) / min(self.vllm, self.sglang)

    def line(self, today: date) -> str:
        """One line with source, date, hardware, and what speaks against it."""
        stale = "; stale evidence" if self.is_stale(today) else ""
        trouble = f"; {self.trouble}" if self.trouble else ""
        month = f"engines of {self.engine_date:%Y-%m}" if self.engine_date else "engines not dated"
        return f"{self.text} ({self.source}, {month}, {self.hardware}{stale}{trouble})"


EVIDENCE = (
    Evidence(
        key="agent-8k",
        favours="sglang",
        topic="prefix",
        text="agent with 8,000 shared tokens: warm first token 38 ms (SGLang), 92 ms (vLLM)",
        source="'SGLang vs vLLM', 2026-10-23",
        engine_date=date(2024, 9, 1),
        hardware="hardware not stated",
        vllm=92,
        sglang=38,
        unit="ms",
        trouble="its cold first token exceeds the FLOP/s of one H100; vLLM 0.6",
    ),
    Evidence(
        key="overlap-75",
        favours="sglang",
        topic="prefix",
        text="4,096-token prompts, 75 % shared, 64 users: 5,430 (SGLang) and 3,120 tok/s (vLLM)",
        source="quoted by 'SGLang vs vLLM', 2026-10-23",
        engine_date=None,
        hardware="hardware not stated",
        vllm=3120,
        sglang=5430,
        unit="tok/s",
        trouble="a hit rate of 78.6 % is above the stated overlap, 41.2 % points to a small pool",
    ),
    Evidence(
        key="runpod-hit",
        favours="sglang",
        topic="prefix",
        text="7K context, cache hit: 10 to 20 % faster requests; fresh context: the same",
        source="RunPod",
        engine_date=date(2025, 6, 1),
        hardware="2x H100 SXM, R1-Distill-Llama-70B",
    ),
    Evidence(
        key="runinfra",
        favours="tie",
        topic="prefix",
        text="vLLM 0.23.0 and SGLang 0.5.13: within a few percent; about 2.7x throughput at 90 %"
        " hits for both",
        source="runinfra",
        engine_date=date(2026, 6, 1),
        hardware="H100 and L40S, Llama-8B",
    ),
    Evidence(
        key="spheron",
        favours="tie",
        topic="unique",
        text="unique prompts, 50 users: 1,920 (SGLang) and 1,850 tok/s (vLLM)",
        source="Spheron",
        engine_date=date(2026, 3, 1),
        hardware="1x H100 SXM5, 70B FP8, 512 in / 256 out",
        vllm=1850,
        sglang=1920,
        unit="tok/s",
        trouble="absolute figures are above the roofline at 1 and 10 users and above the KV memory"
        " at 50: for the tie only",
    ),
    Evidence(
        key="qwen-short",
        favours="vllm",
        topic="short",
        text="short prompts, throughput: 23,500 (vLLM) and 16,800 tok/s (SGLang)",
        source="'SGLang vs vLLM', 2026-10-23",
        engine_date=date(2026, 5, 1),
        hardware="1x H100, Qwen2.5-7B",
        vllm=23500,
        sglang=16800,
        unit="tok/s",
        trouble="its first tokens take seconds: an overloaded closed loop",
    ),
    Evidence(
        key="lmsys-8b",
        favours="sglang",
        topic="short",
        text="8B: 16,200 (SGLang) and 12,500 tok/s (vLLM)",
        source="LMSYS, cloudai",
        engine_date=None,
        hardware="H100, Llama-8B",
        vllm=12500,
        sglang=16200,
        unit="tok/s",
    ),
    Evidence(
        key="dgx-spark",
        favours="both",
        topic="gb10",
        text="SGLang ahead at 1 to 4 users, vLLM at 6 and more; 5 is not reported",
        source="DGX Spark sweep quoted by 'SGLang vs vLLM', 2026-10-23",
        engine_date=None,
        hardware="GB10 only",
    ),
    Evidence(
        key="pool-defaults",
        favours="tie",
        topic="capacity",
        text="same machine: 367K KV tokens (SGLang at 0.93) and 179K (vLLM at 0.90): settings"
        " explain many gaps between engines",
        source="vLLM issue 21348",
        engine_date=date(2025, 7, 21),
        hardware="one machine",
        vllm=179_000,
        sglang=367_000,
        unit="tokens",
    ),
)
"""In the order in which they are quoted."""


def about(*topics: str) -> tuple[Evidence, ...]:
    """Evidence on any of these topics, newest engines first."""
    rows = [row for row in EVIDENCE if row.topic in topics]
    return tuple(sorted(rows, key=lambda row: row.engine_date or date.min, reverse=True))
