"""Hide credentials in the input and output of a job before a model sees them."""

from typing import Any, cast

import msgspec

HIDDEN = "[hidden]"


def redact_configuration(text: str) -> str:
    """Hide the values of `configuration` in a job's input or output: they are credentials."""
    try:
        value = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text
    if not isinstance(value, dict):
        return text
    state = cast("dict[str, Any]", value)
    configuration = state.get("configuration")
    if configuration is None:
        return text
    is_object = isinstance(configuration, dict)
    hidden = dict.fromkeys(cast("dict[str, Any]", configuration), HIDDEN) if is_object else HIDDEN
    return msgspec.json.encode({**state, "configuration": hidden}).decode()
