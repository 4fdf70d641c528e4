"""Names of providers, as users write them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from core.errors import InputError
from pricing import registry
from pricing.snapshot import titles


def provider_names(names: Sequence[str] | None, *, collected: bool = False) -> list[str]:
    """Check provider names.

    Args:
        names: as the user wrote them.
        collected: only providers that can be collected, not those of the bundled snapshot alone.

    Raises:
        InputError: an unknown one; the nearest name is given.
    """
    if not names:
        return []
    known = {provider.name for provider in registry.PROVIDERS} | (
        set() if collected else set(titles)
    )
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, sorted(known), n=1)
            hint = f"did you mean {near[0]}?" if near else f"known: {', '.join(sorted(known))}"
            raise InputError(f"--provider {name}: no such provider; {hint}")
    return list(names)
