"""Any request that an OpenAPI document allows, or that it does not."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, given, settings
from schemathesis import APIOperation, BaseSchema, Case, GenerationMode
from schemathesis.config import SchemathesisConfig
from schemathesis.core.result import Ok

CONFIGURATION = SchemathesisConfig.from_dict(
    {
        "seed": 1,
        # Without a socket nobody unpacks an answer.
        "headers": {"Accept-Encoding": "identity"},
        # A request in a millisecond is a 504, as it should be.
        "parameters": {"header.X-Timeout-Ms": "30000"},
        "checks": {
            # More is read than is described: `EN` and `en-GB` are `en`, and unknown fields
            # are ignored.
            "negative_data_rejection": {"enabled": False},
            "positive_data_acceptance": {"enabled": False},
        },
    }
)


def ask_anything(api: BaseSchema, mode: GenerationMode, *, cases: int) -> None:
    """Sends each operation this many requests that the document allows, or that it does not.
    Fails if the document does not describe an answer, and if one is a fault."""
    found = list(api.get_all_operations())
    operations = [each.ok() for each in found if isinstance(each, Ok)]
    assert len(operations) == len(found)
    if mode is GenerationMode.NEGATIVE:
        operations = [each for each in operations if _can_be_wrong(each)]
    for operation in operations:

        @settings(
            max_examples=cases,
            derandomize=True,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=mode))
        def ask(case: Case[Any]) -> None:
            case.call_and_validate()

        ask()


def _can_be_wrong(operation: APIOperation[Any, Any, Any, Any]) -> bool:
    """Whether it takes something, other than names in its URL that may be anything."""
    raw = operation.definition.raw
    bounded = [
        given
        for given in raw["parameters"]
        if given["schema"].get("type") != "string"
        or "enum" in given["schema"]
        or (given["required"] and given["in"] == "query")
    ]
    return bool(bounded) or "requestBody" in raw
