"""Where the sample payloads and third-party data lie, and what happens without them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("TEST_SHARED", str(ROOT.parent / "shared")))


def shared(*parts: str) -> Path:
    """Return a path under the shared folder; skip where it is missing, fail in CI."""
    path = SHARED.joinpath(*parts)
    if not path.exists():
        message = f"{path} is not here: sample payloads live beside the repository"
        if os.environ.get("CI"):
            pytest.fail(message)
        pytest.skip(message)
    return path


def payloads(provider: str) -> Path:
    """Return the folder with a provider's sample payloads."""
    return shared("payloads", provider)
