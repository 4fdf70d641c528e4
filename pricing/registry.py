"""The providers that spotfloor collects, in the order in which it does."""

from __future__ import annotations

from pricing.providers import aws, azure, gcp, lambda_labs, runpod, vastai
from pricing.source import Provider

PROVIDERS: tuple[Provider, ...] = (
    aws.PROVIDER,
    gcp.PROVIDER,
    azure.PROVIDER,
    runpod.PROVIDER,
    vastai.PROVIDER,
    lambda_labs.PROVIDER,
)


def by_name(name: str) -> Provider:
    """Return the provider with this name.

    Raises:
        KeyError: none has it.
    """
    for provider in PROVIDERS:
        if provider.name == name:
            return provider
    raise KeyError(name)
