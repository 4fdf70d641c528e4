"""Requests made from our own OpenAPI document: none may break the service or surprise a caller."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.service.api.conftest import MakeClient

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


def test_no_request_that_the_document_allows_breaks_it(
    make_client: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = make_client(api_hosts=("*",), api_per_minute=0)
    # What is solved is another test's matter; here the way to it and back is.
    quick = type("Quick", (), {"run": staticmethod(lambda *_: {"schema": "spotfloor.plan/1"})})
    house = client.app.state.house  # type: ignore[attr-defined]
    monkeypatch.setattr(house, "solver", quick())
    schema = schemathesis.openapi.from_asgi("/openapi.json", client.app)
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()  # type: ignore[union-attr]

        @settings(
            max_examples=8,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy())
        def attempt(case: schemathesis.Case[Any]) -> None:
            case.call_and_validate(checks=CHECKS)

        attempt()
        tried += 1
    assert tried >= 17
