"""Options of a declaration besides its name and flags."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast, get_args

import msgspec

from palaver.core.history import SystemPolicy
from palaver.core.runs import RecordMode
from palaver.errors import InvalidOption

OnDisconnect = Literal["cancel", "finish"]
TurnPolicy = Literal["reject", "queue", "interrupt"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of one run; None means the server's setting."""

    seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    events: Annotated[int, msgspec.Meta(gt=0)] | None = None
    bytes: Annotated[int, msgspec.Meta(gt=0)] | None = None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    on_disconnect: OnDisconnect | None = None
    """What happens when the client disconnects; None leaves it to the protocol."""
    system: SystemPolicy = "keep"
    """What happens to system messages from a client."""
    limits: Limits = Limits()
    turns: TurnPolicy = "reject"
    """What happens to a turn while another one runs in the same conversation."""
    idempotent: bool = False
    """Whether a background run may restart when its process died."""
    record: RecordMode = "full"
    """What is stored of its runs: everything, metadata only, or nothing."""
    health: Callable[[], Any] | None = None
    """Health check for /status."""
    readme: str = ""
    """Markdown served at /services/{w}/README.md; generated if empty."""
    redact: tuple[Mapping[str, Any], ...] = ()
    """Redaction rules for stored runs, as in `[[redact]]` of palaver.toml; parsed by the server."""


def read_options(
    name: str,
    *,
    on_disconnect: Any = None,
    system: Any = "keep",
    limits: Limits | dict[str, Any] | None = None,
    turns: Any = "reject",
    idempotent: Any = False,
    record: Any = "full",
    health: Any = None,
    readme: Any = "",
    redact: Any = (),
) -> Options:
    """Validate the options of a declaration. Raises InvalidOption."""
    for option, value, words in (
        ("on_disconnect", on_disconnect, (None, *get_args(OnDisconnect))),
        ("system", system, get_args(SystemPolicy)),
        ("turns", turns, get_args(TurnPolicy)),
        ("idempotent", idempotent, (True, False)),
        ("record", record, get_args(RecordMode)),
    ):
        if value not in words:
            listed = ", ".join(repr(word) for word in words)
            raise InvalidOption(f"{name}: {option} must be one of {listed}, not {value!r}.")
    if health is not None and not callable(health):
        raise InvalidOption(f"{name}: health must be a function without arguments, not {health!r}.")
    if not isinstance(readme, str):
        raise InvalidOption(f"{name}: readme must be a text, not {readme!r}.")
    if not isinstance(redact, list | tuple) or not all(isinstance(rule, dict) for rule in cast("list[Any]", redact)):
        raise InvalidOption(f"{name}: redact must be a list of rules, each a dict, not {redact!r}.")
    try:
        bounds = msgspec.convert(msgspec.to_builtins({} if limits is None else limits), Limits)
    except msgspec.ValidationError as error:
        raise InvalidOption(f"{name}: limits takes seconds, events and bytes: {error}.") from None
    return Options(
        on_disconnect=on_disconnect,
        system=system,
        limits=bounds,
        turns=turns,
        idempotent=idempotent,
        record=record,
        health=health,
        readme=readme,
        redact=tuple(cast("list[dict[str, Any]]", redact)),
    )
