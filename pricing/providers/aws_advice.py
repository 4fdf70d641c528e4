"""AWS's statements about spot reliability: the interruption advisor and placement scores."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from core.market import Parsed, SpotObservation
from core.money import decimal_of
from pricing.providers.aws_types import is_accelerated_family
from pricing.rows import Reject, RowLog, as_list, as_object, load_json
from pricing.source import Payload

_LABEL = re.compile(r"<(?P<below>\d+)%|(?P<low>\d+)-(?P<high>\d+)%|>(?P<above>\d+)%")

Band = tuple[Decimal, Decimal]


def parse_advisor(payload: Payload) -> Parsed:
    """Parse ``spot-advisor-data.json``: shares of instances interrupted over a trailing month.

    A type that the file does not name has no observation: unknown, not the lowest band.
    """
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        bands = _bands(as_list(as_object(document, "the document").get("ranges"), "ranges"))
        regions = as_object(document.get("spot_advisor"), "spot_advisor")
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    for region, systems in regions.items():
        with log.row({region: systems}):
            linux = as_object(as_object(systems, "a region").get("Linux"), "Linux")
            for name, entry in linux.items():
                with log.row({"region": region, "type": name, "entry": entry}):
                    _advice(log, bands, region, name, entry)
    return _finish(log)


def _advice(log: RowLog, bands: dict[int, Band], region: str, name: str, entry: object) -> None:
    if not is_accelerated_family(name):
        log.tally("not_gpu", name, "an instance without accelerator")
        return
    index = as_object(entry, "an entry").get("r")
    if not isinstance(index, int) or isinstance(index, bool) or index not in bands:
        raise Reject("bad_value", f"no band has the index {index!r}")
    low, high = bands[index]
    log.observation(
        SpotObservation(
            provider="aws",
            region=region,
            zone="",
            instance_type=name,
            kind="interruption_band",
            low=low,
            high=high,
            base="trailing month",
            source_url=log.payload.url,
            observed_at=log.payload.fetched_at,
        )
    )


def _bands(ranges: list[Any]) -> dict[int, Band]:
    """Shares by index, read from the labels.

    The labels say what is meant; the file's ``max`` runs ahead of them ("5-10%" has max 11).

    Raises:
        Reject: a range without a readable label, or two with one index.
    """
    found: dict[int, Band] = {}
    for item in ranges:
        band = as_object(item, "a range")
        index, label = band.get("index"), band.get("label")
        if not isinstance(index, int) or isinstance(index, bool) or index in found:
            raise Reject("bad_shape", f"range index {index!r} is no new number")
        match = _LABEL.fullmatch(str(label).replace(" ", ""))
        if match is None:
            raise Reject("bad_shape", f"range label {label!r} is not understood")
        low = Decimal(match["low"] or match["above"] or 0) / 100
        high = Decimal(match["high"] or match["below"] or 100) / 100
        if not low < high <= 1:
            raise Reject("bad_shape", f"range label {label!r} is no share")
        found[index] = (low, high)
    return found


def parse_scores(payload: Payload) -> Parsed:
    """Parse ``get_spot_placement_scores.json``: 1-10, comparable within one request only."""
    log = RowLog(payload)
    document = load_json(log)
    if document is None:
        return log.done()
    try:
        rows = as_list(
            as_object(document, "the document").get("SpotPlacementScores"), "SpotPlacementScores"
        )
    except Reject as wrong:
        log.fail(wrong.reason, wrong.detail)
        return log.done()
    for row in rows:
        with log.row(row):
            score = decimal_of(as_object(row, "a score")["Score"])
            if not 1 <= score <= 10:
                raise Reject("bad_value", f"score {score} is not within 1..10")
            region = row["Region"]
            if not isinstance(region, str) or not region:
                raise Reject("bad_value", f"Region is {region!r}")
            log.observation(
                SpotObservation(
                    provider="aws",
                    region=region,
                    zone=str(row.get("AvailabilityZoneId") or ""),
                    instance_type="*",
                    kind="placement_score",
                    low=score,
                    high=score,
                    base="one request of several types",
                    source_url=payload.url,
                    observed_at=payload.fetched_at,
                )
            )
    return _finish(log)


def _finish(log: RowLog) -> Parsed:
    if not log.parsed.observations:
        log.fail("no_rows", "the document says nothing about accelerated machines")
    return log.done()
