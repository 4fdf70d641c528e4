"""First-token and per-token times of a replica at a given request rate, queueing included.

Two queues in a row:

- *prompts*: one prefill at a time. Utilisation is the share of time that prompts compute; service
  is the prompt's compute plus a decode step between its chunks, because decoding goes on. Waiting
  follows Kingman's formula, which for Poisson arrivals is exactly M/G/1:
  ``rho / (1 - rho) x (ca^2 + cs^2) / 2 x service``.
- *slots*: a request holds one of ``slots`` places (KV cache, scheduler limit) while it decodes.
  Waiting follows Erlang's C formula with the same correction for variability.

The running batch is the fixed point of Little's law: ``users = rate x output x step(users)``.
Percentiles take the wait of those who wait as exponential and prompt lengths as log-normal, and
add the parts' percentiles, which is a little more than the percentile of the sum. The queueing is
an approximation that no measurement here calibrates; near saturation read it as "overloaded".
Times are seconds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from core.errors import InputError
from optimizer.performance import Replica, Traffic
from optimizer.roofline import (
    FIRST_TOKEN_SECONDS,
    PREFILL_SLACK,
    Basis,
    Estimate,
    decode_seconds,
    estimate,
    prefill_per_step,
    token_seconds,
)

CHUNK_TOKENS = 2048
"""Prompt tokens between two decode steps; the smallest default of both engines' schedulers."""
MOST_SLOTS = 1024
BISECTIONS = 60
Z_P50, Z_P99 = 0.0, 2.3263
"""Standard normal quantiles."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Requests that arrive at one replica.

    Attributes:
        requests_per_s: arrivals per second.
        input_tokens, output_tokens: means per request.
        input_cv: coefficient of variation of prompt lengths (real chat traffic: 1 and more).
        arrival_cv: coefficient of variation of the time between arrivals; 1 = Poisson.
        hit: share of prompt tokens found in the prefix cache.
    """

    requests_per_s: float
    input_tokens: int
    output_tokens: int
    input_cv: float = 1.0
    arrival_cv: float = 1.0
    hit: float = 0.0

    def __post_init__(self) -> None:
        """Refuse a load that has no meaning."""
        if not self.requests_per_s > 0 or math.isinf(self.requests_per_s):
            raise InputError(f"requests_per_s {self.requests_per_s}: must be above 0 and finite")
        for field in ("input_cv", "arrival_cv"):
            value = getattr(self, field)
            if not 0 <= value < math.inf:
                raise InputError(f"{field} {value}: must be 0 or more")
        self.traffic(1)

    def traffic(self, users: int) -> Traffic:
        """The same requests as a running batch."""
        return Traffic(
            input_tokens=self.input_tokens,
            output_tokens=self.output_tokens,
            users=users,
            hit=self.hit,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """What a user of the loaded replica sees.

    Attributes:
        saturated: arrivals exceed what the replica can serve; the times are then infinite.
        running: requests decoding on average.
        prompt_load, slot_load: utilisation of the two queues, 0 to 1 and beyond.
        ttft_mean_s, ttft_p50_s, ttft_p99_s, tpot_s: seconds.
        request_mean_s: from arrival to the last token.
        output_tokens_per_s: served, at most what the replica can.
        basis, band: of the speed beneath; queueing adds its own uncertainty.
    """

    saturated: bool
    running: float
    prompt_load: float
    slot_load: float
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p99_s: float
    tpot_s: float
    request_mean_s: float
    output_tokens_per_s: float
    basis: Basis
    band: float


def capacity_requests_per_s(replica: Replica, load: Load, slots: int) -> float:
    """Requests per second at which all slots are always taken: the most that can be served.

    Raises:
        InputError: no slot; the cache does not hold one request.
    """
    _check_slots(slots)
    speed = estimate(replica, load.traffic(min(slots, MOST_SLOTS)))
    return speed.output_tokens_per_s / load.output_tokens


class _Steps:
    """Step times by running batch; they do not depend on the rate, so each is worked out once."""

    def __init__(self, replica: Replica, load: Load) -> None:
        self.replica, self.load = replica, load
        self.known: dict[int, float] = {}

    def whole(self, users: int) -> float:
        """Step time of a whole batch, seconds."""
        if users not in self.known:
            self.known[users] = _whole_step(self.replica, self.load, users)
        return self.known[users]

    def at(self, running: float) -> float:
        """Step time of a fractional batch: between the two whole ones."""
        below = max(1, math.floor(running))
        first = self.whole(below)
        return first + (max(running, 1.0) - below) * (self.whole(below + 1) - first)


def at_load(replica: Replica, load: Load, slots: int) -> Latency:
    """TTFT and TPOT of a replica at a request rate.

    Args:
        slots: requests that can decode at the same time: the smaller of what the KV pool holds
            at ``input + output`` tokens and the engine's limit.

    Raises:
        InputError: no slot, or a model of unknown cache size.
    """
    _check_slots(slots)
    slots = min(slots, MOST_SLOTS)
    full = estimate(replica, load.traffic(slots))
    return _at_load(replica, load, slots, full, _Steps(replica, load))


def _at_load(replica: Replica, load: Load, slots: int, full: Estimate, steps: _Steps) -> Latency:
    """As ``at_load``, with the speed of the full batch at hand."""
    capacity = full.output_tokens_per_s / load.output_tokens
    if load.requests_per_s >= capacity:
        return _saturated(full, slots, load, capacity)
    running = _running(load, slots, steps)
    step = steps.at(running)
    constants = replica.used_constants
    decode = decode_seconds(replica, load.traffic(max(1, round(running))), constants)
    prompt = _prompt_seconds(replica, load, decode)
    busy = (
        load.requests_per_s
        * load.input_tokens
        * (1 - load.hit)
        * (token_seconds(replica, load.input_tokens, constants) / replica.pipeline_parallel)
    )
    wait = _kingman(min(busy, 1.0), load, prompt)
    held = load.output_tokens * step
    slot_load = load.requests_per_s * held / slots
    slot_wait, slot_probability = _erlang_wait(load, slots, held)
    served = prompt + FIRST_TOKEN_SECONDS
    return Latency(
        saturated=False,
        running=running,
        prompt_load=busy,
        slot_load=slot_load,
        ttft_mean_s=served + wait + slot_wait,
        ttft_p50_s=_prompt_quantile(prompt, load, Z_P50)
        + _tail(wait, busy, 0.50)
        + _tail(slot_wait, slot_probability, 0.50),
        ttft_p99_s=_prompt_quantile(prompt, load, Z_P99)
        + _tail(wait, busy, 0.99)
        + _tail(slot_wait, slot_probability, 0.99),
        tpot_s=step,
        request_mean_s=served + wait + slot_wait + held,
        output_tokens_per_s=load.requests_per_s * load.output_tokens,
        basis=full.basis,
        band=full.band,
    )


def most_requests_per_s(
    replica: Replica,
    load: Load,
    slots: int,
    *,
    ttft_p99_s: float | None = None,
    tpot_s: float | None = None,
) -> float:
    """Highest request rate that keeps both limits; 0 when even an idle replica misses one.

    A stricter limit never gives a higher rate, so it never makes a fleet cheaper.

    Args:
        load: its rate is ignored.
        ttft_p99_s, tpot_s: limits in seconds; None for no limit.

    Raises:
        InputError: no slot, or a limit that is not positive.
    """
    for field, limit in (("ttft_p99_s", ttft_p99_s), ("tpot_s", tpot_s)):
        if limit is not None and not limit > 0:
            raise InputError(f"{field} {limit}: must be above 0 seconds")
    low, high = 0.0, capacity_requests_per_s(replica, load, slots)
    slots = min(slots, MOST_SLOTS)
    full, steps = estimate(replica, load.traffic(slots)), _Steps(replica, load)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        if middle <= 0:
            break
        found = _at_load(replica, replace(load, requests_per_s=middle), slots, full, steps)
        late = ttft_p99_s is not None and found.ttft_p99_s > ttft_p99_s
        slow = tpot_s is not None and found.tpot_s > tpot_s
        low, high = (low, middle) if found.saturated or late or slow else (middle, high)
        if high - low <= 1e-4 * high:
            break
    return low


def _whole_step(replica: Replica, load: Load, users: int) -> float:
    traffic = load.traffic(users)
    constants = replica.used_constants
    token = token_seconds(replica, load.input_tokens, constants)
    return decode_seconds(replica, traffic, constants) + prefill_per_step(replica, traffic, token)


def _running(load: Load, slots: int, steps: _Steps) -> float:
    """Solve Little's law for the running batch; below capacity there is one crossing."""
    low, high = 0.0, float(slots)
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        needed = load.requests_per_s * load.output_tokens * steps.at(middle)
        low, high = (middle, high) if needed > middle else (low, middle)
        if high - low <= 1e-6 * slots:
            break
    return high


def _prompt_seconds(replica: Replica, load: Load, decode: float) -> float:
    """Prefill of one prompt while others decode: its compute and one step per chunk."""
    tokens = load.input_tokens * (1 - load.hit)
    compute = tokens * token_seconds(replica, load.input_tokens, replica.used_constants)
    return PREFILL_SLACK * compute + max(0, math.ceil(tokens / CHUNK_TOKENS) - 1) * decode


def _prompt_quantile(prompt: float, load: Load, z: float) -> float:
    """First-token time of a prompt at a normal quantile ``z`` of log-normal lengths."""
    variance = math.log(1 + load.input_cv**2)
    return FIRST_TOKEN_SECONDS + prompt * math.exp(z * math.sqrt(variance) - variance / 2)


def _kingman(utilisation: float, load: Load, service: float) -> float:
    if utilisation >= 1:
        return math.inf
    variability = (load.arrival_cv**2 + load.input_cv**2) / 2
    return utilisation / (1 - utilisation) * variability * service


def _erlang_wait(load: Load, slots: int, held: float) -> tuple[float, float]:
    """Mean wait for a slot and the probability of waiting (Erlang C by its recursion)."""
    offered = load.requests_per_s * held
    if offered >= slots:
        return math.inf, 1.0
    blocked = 1.0
    for servers in range(1, slots + 1):
        blocked = offered * blocked / (servers + offered * blocked)
    waiting = blocked / (1 - offered / slots * (1 - blocked))
    variability = (load.arrival_cv**2 + 1) / 2
    return waiting * held / (slots - offered) * variability, waiting


def _tail(mean: float, probability: float, quantile: float) -> float:
    """Quantile of a wait that is zero for some and exponential for the others."""
    rest = 1 - quantile
    if probability <= rest or mean == 0:
        return 0.0
    return mean / probability * math.log(probability / rest)


def _saturated(full: Estimate, slots: int, load: Load, capacity: float) -> Latency:
    return Latency(
        saturated=True,
        running=float(slots),
        prompt_load=full.prefill_share * load.requests_per_s / capacity,
        slot_load=load.requests_per_s / capacity,
        ttft_mean_s=math.inf,
        ttft_p50_s=math.inf,
        ttft_p99_s=math.inf,
        tpot_s=full.step_seconds,
        request_mean_s=math.inf,
        output_tokens_per_s=full.output_tokens_per_s,
        basis=full.basis,
        band=full.band,
    )


def _check_slots(slots: int) -> None:
    if slots < 1:
        raise InputError(
            f"slots {slots}: the KV cache does not hold one request; use a larger card, more GPUs"
            " or a shorter context"
        )
