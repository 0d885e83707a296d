"""The parameters of a model's call that are shown: what everybody calls by the same names, and nothing else.

What else a framework hands to a model may be a credential or a client's object.
"""

from collections.abc import Mapping
from typing import Any

_SHOWN = frozenset(
    (
        "frequency_penalty",
        "logprobs",
        "max_completion_tokens",
        "max_output_tokens",
        "max_tokens",
        "n",
        "parallel_tool_calls",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "service_tier",
        "stop",
        "stop_sequences",
        "temperature",
        "tool_choice",
        "top_k",
        "top_logprobs",
        "top_p",
        "verbosity",
    )
)


def shown(given: Mapping[str, Any]) -> dict[str, Any]:
    """Those that were given, and are JSON."""
    kept = {name: value for name, value in given.items() if name in _SHOWN and value is not None}
    return {name: value for name, value in kept.items() if isinstance(value, str | int | float | bool | list | dict)}
