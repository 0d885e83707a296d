"""Parse and validate the payload of a question. All errors are reported at once, and nothing is truncated.

The keys of the services protocol (`api_key`, `stream`, `metrics_opt_in`) are handled by the server.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Literal, TypeVar, cast, get_origin

import msgspec

from palaver import Failure
from palaver_jobchat.adaptors import names
from palaver_jobchat.adaptors.names import Adaptor

_PAGE_MARK = re.compile(r"^\[pg:([^\]]*)\] ?")
FLAGS = ("use_new_prompt", "suggest_code", "download_adaptor_docs", "refresh_rag", "rehearsal")


class PayloadLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Maximum characters per field. Larger fields are rejected: an answer based on truncated input looks complete."""

    content: int = 50_000
    expression: int = 150_000
    history: int = 300_000
    """Sum over all turns."""
    input: int = 150_000
    output: int = 150_000
    log: int = 150_000
    total: int = 500_000


LIMITS = PayloadLimits()


class Turn(msgspec.Struct, frozen=True):
    role: Literal["user", "assistant"]
    content: str

    @property
    def text(self) -> str:
        """The content without the page mark that some clients put before a user's message."""
        return strip_page_mark(self.content) if self.role == "user" else self.content


class JobContext(msgspec.Struct, frozen=True, kw_only=True):
    """The job that the question is about, and the data of its last run."""

    expression: str | None = None
    """The job's code."""
    adaptor: Adaptor | None = None
    page: str | None = None
    input: str | None = None
    """A string unchanged; any other value as compact JSON."""
    output: str | None = None
    log: str | None = None


class PreviousTopic(msgspec.Struct, frozen=True, kw_only=True):
    """The topic of the previous turn, from the `meta` that the client sent back."""

    page: str | None = None
    adaptor: str | None = None
    """Package name."""
    version: str | None = None


class Payload(msgspec.Struct, frozen=True, kw_only=True):
    """A validated question with its context."""

    content: str
    history: tuple[Turn, ...] = ()
    context: JobContext = JobContext()
    results: tuple[Any, ...] = ()
    """Search results of an earlier turn, as the client sent them back; untrusted and not yet validated."""
    previous_topic: PreviousTopic | None = None
    mode: Literal["plain", "edits"] = "plain"
    """`plain`: code is part of the answer's text. `edits`: the model edits the job through its tool."""
    download_adaptor_docs: bool = True
    refresh_rag: bool = False
    rehearsal: bool = False
    """Whether a script answers instead of a model."""

    @property
    def question(self) -> str:
        text = strip_page_mark(self.content)
        return text if text.strip() else self.content

    @property
    def page(self) -> str | None:
        """The name of the job that the user has open."""
        return self.context.page or page_mark(self.content)

    @property
    def previous_page(self) -> str | None:
        """The job that was open at the previous question: from the returned `meta`, else from that question's mark."""
        if self.previous_topic is not None:
            return self.previous_topic.page
        questions = (turn.content for turn in reversed(self.history) if turn.role == "user")
        return page_mark(next(questions, ""))

    @property
    def previous_question(self) -> str | None:
        """The user's message before this one."""
        return next((turn.text for turn in reversed(self.history) if turn.role == "user" and turn.text.strip()), None)

    @property
    def sizes(self) -> dict[str, int]:
        """Characters per field, without empty fields."""
        sizes = {
            "content": len(self.content),
            "context.expression": len(self.context.expression or ""),
            "history": sum(len(turn.content) for turn in self.history),
            "context.input": len(self.context.input or ""),
            "context.output": len(self.context.output or ""),
            "context.log": len(self.context.log or ""),
        }
        return {field: size for field, size in sizes.items() if size}


def page_mark(text: str) -> str | None:
    """Return the name in the page mark of a user's message."""
    match = _PAGE_MARK.match(text)
    return (match[1].strip() or None) if match else None


def strip_page_mark(text: str) -> str:
    """Remove the page mark from a user's message: `[pg:my_job] how?`."""
    return _PAGE_MARK.sub("", text)


T = TypeVar("T")
_TYPE_MESSAGES: dict[type[Any], str] = {
    str: "must be a string",
    dict: "must be an object",
    list: "must be a list",
    bool: "must be true or false",
}


class _PayloadReader:
    """Reads fields of the payload by type and collects errors."""

    def __init__(self) -> None:
        self.errors: list[dict[str, str]] = []

    def add_error(self, field: str, message: str) -> None:
        self.errors.append({"field": field, "message": message})

    def read(self, holder: Mapping[str, Any], field: str, kind: type[T]) -> T | None:
        """Return the value of a field, which is the last part of its path, or None if there is none of this type."""
        value = holder.get(field.rpartition(".")[2])
        python_type: type[Any] = get_origin(kind) or kind
        if value is None or isinstance(value, python_type):
            return cast("T | None", value)
        self.add_error(field, _TYPE_MESSAGES[python_type])
        return None


def parse_payload(body: object, limits: PayloadLimits = LIMITS) -> Payload:
    """Parse any JSON value. Raises Failure with all errors."""
    reader = _PayloadReader()
    if not isinstance(body, dict):
        raise Failure("bad_request", "The payload must be a JSON object.", status=400)
    fields = cast("dict[str, Any]", body)
    content = fields.get("content")
    if not isinstance(content, str) or not content.strip():
        reader.add_error("content", "must be a non-blank string")
        content = ""
    history = tuple(_turns(reader.read(fields, "history", list[Any]) or [], reader))
    context = _context(reader.read(fields, "context", dict[str, Any]) or {}, reader)
    meta = reader.read(fields, "meta", dict[str, Any]) or {}
    rag = reader.read(meta, "meta.rag", dict[str, Any]) or {}
    results = reader.read(rag, "meta.rag.search_results", list[Any]) or []
    flags = {name: reader.read(fields, name, bool) for name in FLAGS}
    payload = Payload(
        content=content,
        history=history,
        context=context,
        results=tuple(results),
        previous_topic=_previous_topic(meta.get("job_chat")),
        mode=_mode(flags["use_new_prompt"], flags["suggest_code"], reader),
        download_adaptor_docs=flags["download_adaptor_docs"] is not False,
        refresh_rag=flags["refresh_rag"] is True,
        rehearsal=flags["rehearsal"] is True,
    )
    if reader.errors:
        first = reader.errors[0]
        message = f"{first['field']} {first['message']}"
        raise Failure("bad_request", message, status=400, details={"errors": reader.errors})
    _check_sizes(payload, limits)
    return payload


def _turns(items: list[Any], reader: _PayloadReader) -> Iterator[Turn]:
    for index, item in enumerate(items):
        field = f"history[{index}]"
        if not isinstance(item, dict):
            reader.add_error(field, "must be an object")
            continue
        turn = cast("dict[str, Any]", item)
        role, content = turn.get("role"), turn.get("content")
        if role not in ("user", "assistant"):
            reader.add_error(f"{field}.role", "must be 'user' or 'assistant'")
        if not isinstance(content, str):
            reader.add_error(f"{field}.content", "must be a string")
        elif role in ("user", "assistant"):
            yield Turn(role, content)


def _context(fields: Mapping[str, Any], reader: _PayloadReader) -> JobContext:
    name = reader.read(fields, "context.adaptor", str)
    adaptor = names.parse_adaptor(name) if name and name.strip() else None
    if name and name.strip() and adaptor is None:
        reader.add_error("context.adaptor", f"must look like '{names.EXAMPLE}'")
    return JobContext(
        expression=reader.read(fields, "context.expression", str),
        adaptor=adaptor,
        page=reader.read(fields, "context.page_name", str),
        input=_to_text(fields.get("input")),
        output=_to_text(fields.get("output")),
        log=reader.read(fields, "context.log", str),
    )


def _to_text(value: Any) -> str | None:
    return value if value is None or isinstance(value, str) else msgspec.json.encode(value).decode()


def _previous_topic(value: object) -> PreviousTopic | None:
    """Parse `meta.job_chat` of an earlier answer. The client sends it back: an invalid one is ignored."""
    if not isinstance(value, dict):
        return None
    ignored_errors = _PayloadReader()
    meta = cast("dict[str, Any]", value)
    adaptor = ignored_errors.read(meta, "adaptor", dict[str, Any]) or {}
    return PreviousTopic(
        page=ignored_errors.read(meta, "page", str),
        adaptor=ignored_errors.read(adaptor, "name", str),
        version=ignored_errors.read(adaptor, "version", str),
    )


def _mode(new: bool | None, suggest: bool | None, reader: _PayloadReader) -> Literal["plain", "edits"]:  # noqa: FBT001 (two flags)
    if new is not None and suggest is not None and new != suggest:
        reader.add_error("use_new_prompt", "contradicts suggest_code; send only one of them")
    return "edits" if new or suggest else "plain"


def _check_sizes(payload: Payload, limits: PayloadLimits) -> None:
    sizes = payload.sizes
    for field, size in sizes.items():
        limit: int = getattr(limits, field.removeprefix("context."))
        if size > limit:
            start = f"{field} has {size:,} characters; the limit is {limit:,}."
            raise _too_large(f"{start} Shorten it or leave it out.", field, size, limit, sizes)
    total = sum(sizes.values())
    if total > limits.total:
        largest = max(sizes, key=sizes.__getitem__)
        start = f"The payload has {total:,} characters in total; the limit is {limits.total:,}."
        raise _too_large(f"{start} Shorten {largest}, the largest field.", largest, total, limits.total, sizes)


def _too_large(message: str, field: str, size: int, limit: int, fields: dict[str, int]) -> Failure:
    details = {"field": field, "size": size, "limit": limit, "fields": fields}
    return Failure("input_too_large", message, status=413, details=details)
