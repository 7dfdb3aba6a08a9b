"""Messages of every shape that the routes describe, and of others: refused or answered, as described."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI
from hypothesis import HealthCheck, given, settings

from epsilens.app.api import router

schemathesis = pytest.importorskip("schemathesis")

pytestmark = pytest.mark.slow


def described() -> FastAPI:
    app = FastAPI()
    app.include_router(router)
    return app


OPERATIONS = [
    found.ok()
    for found in schemathesis.openapi.from_dict(described().openapi()).get_all_operations()
]


CASES = [
    pytest.param(operation, mode, id=f"{operation.label} {mode.value}")
    for operation in OPERATIONS
    for mode in schemathesis.GenerationMode
    # A question without any part cannot be asked wrongly.
    if mode is schemathesis.GenerationMode.POSITIVE
    or any([*operation.iter_parameters(), *operation.body])
]


@pytest.mark.parametrize(("operation", "mode"), CASES)
def test_every_route_keeps_its_word(visitor: Any, operation: Any, mode: Any) -> None:
    checks = schemathesis.checks

    # Thirty a route: every refusal is met, and the whole file takes seconds.
    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def ask(case: Any) -> None:
        request = case.as_transport_kwargs(base_url=str(visitor.client.base_url))
        body = request.pop("data", None)
        if body is not None:
            request["content"] = body.encode() if isinstance(body, str) else body
        headers = {
            name: value
            for name, value in dict(request.pop("headers")).items()
            if value and name.lower() not in {"user-agent", "x-schemathesis-testcaseid"}
        }
        known = ("method", "url", "params", "content", "json")
        used = {name: value for name, value in request.items() if name in known}
        response = visitor.client.request(headers=headers, **used)
        case.validate_response(
            response,
            checks=[
                checks.not_a_server_error,
                checks.status_code_conformance,
                checks.content_type_conformance,
                checks.response_schema_conformance,
            ],
        )
        if response.status_code >= 400:
            assert "\n" not in response.json()["error"]

    ask()
