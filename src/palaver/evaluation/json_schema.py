"""Bounded JSON Schema validation whose failures are scoring errors."""

from typing import Any

from palaver.core import json_schema
from palaver.core.json_schema import PATTERN_TIMEOUT_S, Schema, check_schema
from palaver.evaluation.score import ScoringError

__all__ = ["PATTERN_TIMEOUT_S", "Schema", "check_schema", "schema_errors"]


def schema_errors(value: Any, schema: Schema) -> list[str]:
    """Return the first few errors of a value; empty if it is valid. Raises ScoringError."""
    try:
        return json_schema.schema_errors(value, schema)
    except json_schema.SchemaError as error:
        raise ScoringError(error.code, str(error)) from None
