"""What tokens cost: USD per 1K and 1M, split into input and output, at the achieved utilisation.

``usd per million = usd per useful hour / (tokens per second x 3600) x 10^6``. Time on prompts is
paid by prompt tokens, time on decoding by output tokens; prompt tokens found in the cache cost no
compute. The split adds up: what the parts cost is what the hour costs. Money is Decimal.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from core.errors import InputError
from optimizer.money import exact
from optimizer.performance import Traffic
from optimizer.roofline import Estimate

SECONDS_PER_HOUR = 3600
THOUSAND = 1_000
MILLION = 1_000_000
NANO_USD = Decimal("0.000000001")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenCost:
    """Cost of tokens of one replica, USD per million; ``per_1k`` divides.

    Attributes:
        output: all costs on output tokens: the figure to compare with others' "per output token".
        total: all costs on input and output tokens together.
        input_split, output_split: prompt time on computed prompt tokens, decode time on output.
        cached_input: prompt tokens found in the cache; no compute time, so 0.
        utilisation: share of the replica's speed that is used, 0 to 1.
    """

    usd_per_hour: Decimal
    output: Decimal
    total: Decimal
    input_split: Decimal
    output_split: Decimal
    cached_input: Decimal
    utilisation: Decimal

    def per_1k(self, usd_per_million: Decimal) -> Decimal:
        """One of the figures per thousand tokens."""
        return usd_per_million / THOUSAND


@dataclass(frozen=True, slots=True, kw_only=True)
class CostComparison:
    """On demand against spot; spot is charged per useful hour. None = no such offer."""

    on_demand: TokenCost | None
    spot: TokenCost | None

    @property
    def spot_saving(self) -> Decimal | None:
        """Share that spot saves; negative when it costs more; None without both."""
        if self.on_demand is None or self.spot is None:
            return None
        return 1 - self.spot.output / self.on_demand.output


def usd_per_million(usd_per_hour: Decimal, tokens_per_s: float | Decimal) -> Decimal:
    """USD per million tokens at a constant speed.

    Args:
        usd_per_hour: of the whole replica; for spot per *useful* hour.

    Raises:
        InputError: a negative price or a speed that is not positive.
    """
    _check_price(usd_per_hour)
    speed = tokens_per_s if isinstance(tokens_per_s, Decimal) else exact(tokens_per_s)
    if not (speed.is_finite() and speed > 0):
        raise InputError(f"tokens_per_s {tokens_per_s}: must be above 0 and finite")
    return usd_per_hour * MILLION / (speed * SECONDS_PER_HOUR)


def token_cost(
    usd_per_hour: Decimal,
    speed: Estimate,
    traffic: Traffic,
    *,
    utilisation: Decimal = Decimal(1),
) -> TokenCost:
    """Cost of a replica's tokens.

    Args:
        usd_per_hour: of the whole replica; for spot per useful hour, so that reloads are paid.
        speed: the replica's estimate under ``traffic``.
        utilisation: mean load over what the replica could serve; an idle hour costs too.

    Raises:
        InputError: a negative price, a utilisation outside 0 (excluded) to 1.
    """
    if not 0 < utilisation <= 1:
        raise InputError(f"utilisation {utilisation}: must be above 0 and at most 1")
    served = exact(speed.output_tokens_per_s) * utilisation
    ratio = Decimal(traffic.input_tokens) / traffic.output_tokens
    computed = served * ratio * (1 - exact(traffic.hit))
    share = exact(speed.prefill_share) if computed else Decimal(0)
    whole = usd_per_million(usd_per_hour, served)
    return TokenCost(
        usd_per_hour=usd_per_hour,
        output=whole,
        total=whole / (1 + ratio),
        input_split=usd_per_million(usd_per_hour * share, computed) if computed else Decimal(0),
        output_split=whole * (1 - share),
        cached_input=Decimal(0),
        utilisation=utilisation,
    )


def compare(
    on_demand_usd_per_hour: Decimal | None,
    spot_usd_per_useful_hour: Decimal | None,
    speed: Estimate,
    traffic: Traffic,
    *,
    utilisation: Decimal = Decimal(1),
) -> CostComparison:
    """Token costs on demand and on spot at its true price per useful hour.

    Raises:
        InputError: as ``token_cost``.
    """

    def cost(price: Decimal | None) -> TokenCost | None:
        if price is None:
            return None
        return token_cost(price, speed, traffic, utilisation=utilisation)

    return CostComparison(
        on_demand=cost(on_demand_usd_per_hour), spot=cost(spot_usd_per_useful_hour)
    )


def printable(usd: Decimal) -> Decimal:
    """Round to a nano-dollar, half-even: enough digits for a price per token."""
    return usd.quantize(NANO_USD)


def _check_price(usd_per_hour: Decimal) -> None:
    if not usd_per_hour.is_finite() or usd_per_hour < 0:
        raise InputError(f"usd_per_hour {usd_per_hour}: must be 0 or more")
