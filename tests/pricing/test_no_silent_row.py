"""Every row of a JSON list leaves a trace: an offer, a tariff, an observation, or a reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from pricing.registry import PROVIDERS, by_name
from tests.pricing.acceptance import made
from tests.shared import SHARED, payloads

NAMES = [provider.name for provider in PROVIDERS]

JOINED = {
    "aws-spot-advisor-data.json",
    "crusoe-capacities.json",
    "crusoe-vms_types.json",
    "gcp-billing_catalog_compute_page1.json",
    "gcp-billing_catalog_compute_page2.json",
    "hyperstack-flavors.json",
    "hyperstack-pricebook.json",
    "nebius-platforms_eu-north1.json",
    "oci-cloudestimator_products.json",
    "oci-cloudestimator_shapes.json",
    "verda-instance_availability_ondemand.json",
    "verda-instance_availability_spot.json",
    "verda-locations.json",
}
"""Files that say something only together with others: parts of a machine's price, stock, places,
shapes, the legend of a scale."""


def files_of(provider: str) -> list[str]:
    folder = SHARED / "payloads" / provider
    names = (
        sorted(p.name for p in folder.iterdir() if p.suffix == ".json") if folder.exists() else []
    )
    return list(by_name(provider).primary(names))


CASES = [
    (name, file) for name in NAMES for file in files_of(name) if f"{name}-{file}" not in JOINED
] or [("aws", "(no samples)")]


def lists_in(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Paths of the lists of objects at the top or one level below."""
    if isinstance(document, list):
        if document and all(isinstance(row, dict) for row in document):
            yield path
    elif isinstance(document, dict) and len(path) < 2:
        for key, value in document.items():
            yield from lists_in(value, (*path, key))


def with_rows(document: Any, path: tuple[Any, ...], rows: list[Any]) -> Any:
    if not path:
        return rows
    return {**document, path[0]: with_rows(document[path[0]], path[1:], rows)}


def at(document: Any, path: tuple[Any, ...]) -> list[Any]:
    for key in path:
        document = document[key]
    assert isinstance(document, list)
    return document


@pytest.mark.shared
@pytest.mark.parametrize(("provider", "file"), CASES, ids=[f"{p}-{f}" for p, f in CASES])
def test_a_row_more_is_an_offer_or_a_reason_more(provider: str, file: str) -> None:
    document = json.loads((payloads(provider) / file).read_text("utf-8"))
    source = by_name(provider)

    def traces(body: Any) -> int:
        parsed = source.parse([made(body, file)])
        rejected = sum(item.count for item in parsed.rejected)
        return len(parsed.offers) + rejected + len(parsed.egress) + len(parsed.observations)

    for path in lists_in(document):
        rows = at(document, path)
        for number, row in enumerate(rows):
            rest = [*rows[:number], *rows[number + 1 :]]
            if rest:
                assert traces(document) > traces(with_rows(document, path, rest)), row
