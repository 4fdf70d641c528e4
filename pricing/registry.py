"""The providers that spotfloor collects, in the order in which it does."""

from __future__ import annotations

from pricing.providers import (
    aws,
    azure,
    coreweave,
    crusoe,
    cudo,
    digitalocean,
    fluidstack,
    gcp,
    hyperbolic,
    hyperstack,
    jarvislabs,
    lambda_labs,
    modal,
    nebius,
    oci,
    ovhcloud,
    paperspace,
    primeintellect,
    runpod,
    salad,
    scaleway,
    shadeform,
    tensordock,
    thundercompute,
    together,
    vastai,
    verda,
    vultr,
)
from pricing.source import Provider

PROVIDERS: tuple[Provider, ...] = (
    aws.PROVIDER,
    gcp.PROVIDER,
    azure.PROVIDER,
    runpod.PROVIDER,
    vastai.PROVIDER,
    lambda_labs.PROVIDER,
    scaleway.PROVIDER,
    ovhcloud.PROVIDER,
    jarvislabs.PROVIDER,
    tensordock.PROVIDER,
    cudo.PROVIDER,
    hyperstack.PROVIDER,
    shadeform.PROVIDER,
    oci.PROVIDER,
    verda.PROVIDER,
    nebius.PROVIDER,
    coreweave.PROVIDER,
    crusoe.PROVIDER,
    digitalocean.PROVIDER,
    vultr.PROVIDER,
    primeintellect.PROVIDER,
    thundercompute.PROVIDER,
    paperspace.PROVIDER,
    salad.PROVIDER,
    modal.PROVIDER,
    hyperbolic.PROVIDER,
    fluidstack.PROVIDER,
    together.PROVIDER,
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
