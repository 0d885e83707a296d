"""A workflow that returns its inputs: handy for inspecting what it receives."""

from typing import Any

from palaver import workflow


@workflow
async def echo(**inputs: Any) -> dict[str, Any]:
    """Returns its inputs unchanged."""
    return inputs
