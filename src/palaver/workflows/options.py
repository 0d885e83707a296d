"""Options of a declaration, beside its name and flags."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast, get_args

import msgspec

from palaver.core.history import SystemPolicy
from palaver.core.runs import RecordMode
from palaver.errors import InvalidOption

OnDisconnect = Literal["cancel", "finish"]
TurnPolicy = Literal["reject", "queue", "interrupt"]


class Limits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How far one run may go; None leaves it to the server's settings."""

    seconds: Annotated[float, msgspec.Meta(gt=0)] | None = None
    events: Annotated[int, msgspec.Meta(gt=0)] | None = None
    bytes: Annotated[int, msgspec.Meta(gt=0)] | None = None


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """How runs of this workflow behave."""

    on_disconnect: OnDisconnect | None = None
    """What happens when nobody reads any more; None leaves it to the protocol."""
    system: SystemPolicy = "keep"
    """What becomes of system messages that a client sends."""
    limits: Limits = Limits()
    turns: TurnPolicy = "reject"
    """What becomes of a turn while another one runs in the same conversation."""
    idempotent: bool = False
    """May a run in the background start again when its process died?"""
    record: RecordMode = "full"
    """What is kept of its runs: everything, that they were, or nothing."""
    health: Callable[[], Any] | None = None
    """Says whether it works, when somebody asks for /status."""
    readme: str = ""
    """Markdown for people, at /services/{w}/README.md; without it, one is made."""
    redact: tuple[Mapping[str, Any], ...] = ()
    """What is removed from what is stored of its runs, as in `[[redact]]` of palaver.toml; read by the server."""


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
    """The options as declared, or InvalidOption naming the one that is wrong."""
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
