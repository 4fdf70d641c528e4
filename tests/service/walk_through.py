"""Following docs/adding-a-provider.md to the letter: its files, and its line in the registry."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from pricing import registry
from pricing.source import Provider
from tests.shared import ROOT

PAGE = ROOT / "docs" / "adding-a-provider.md"


def files() -> dict[str, str]:
    """{path: content} of every file that the page shows."""
    text = PAGE.read_text("utf-8")
    return dict(re.findall(r"`([\w/.]+)`:\n\n```\w+\n(.*?)^```", text, re.DOTALL | re.MULTILINE))


def follow(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Provider:
    """Write the page's files into a folder and register its provider until the test ends."""
    for name, content in files().items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content, "utf-8")
    spec = importlib.util.spec_from_file_location("acme", folder / "pricing/providers/acme.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    provider: Provider = module.PROVIDER
    monkeypatch.setattr(registry, "PROVIDERS", (*registry.PROVIDERS, provider))
    monkeypatch.setattr("pricing.run.PROVIDERS", registry.PROVIDERS)
    return provider
