"""Units of size. GiB (2^30 bytes) and GB (10^9 bytes) differ by 7.4 %; names carry the unit."""

from __future__ import annotations

from decimal import Decimal

GIB = 2**30
GB = 10**9

HOURS_PER_MONTH = 730
"""Hours in a month for every monthly figure (8,760 h / 12), as AWS and Infracost use."""


def gib_from_mib(mib: Decimal | float | str) -> Decimal:
    """Convert MiB to GiB (divide by 1,024), to a tenth of a GiB."""
    return (Decimal(str(mib)) / 1024).quantize(Decimal("0.1"))


def gib_from_bytes(count: int) -> Decimal:
    """Convert bytes to GiB (divide by 2^30), to a tenth of a GiB."""
    return (Decimal(count) / GIB).quantize(Decimal("0.1"))


def gib_from_gb(gb: Decimal) -> Decimal:
    """Convert GB (10^9 bytes) to GiB (2^30 bytes), exactly rounded to 1e-6 GiB."""
    return (gb * GB / GIB).quantize(Decimal("0.000001"))
