"""A workflow that returns what it was given: handy to see what arrives."""

from typing import Any

from palaver import workflow


@workflow
async def echo(**inputs: Any) -> dict[str, Any]:
    """Returns its inputs as they came."""
    return inputs
