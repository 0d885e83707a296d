"""Options of a call for the model, and the format that they require of the reply."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict, cast

from msgspec import UNSET

from palaver.core import json
from palaver.core.events import Event, PartAdded, RunFinished, TextEnded
from palaver.core.json import dict_or_empty
from palaver.core.messages import Refusal
from palaver.errors import RequestError

MAX_CHECK_S = 1.0
"""Time limit for checking a reply against a schema."""


class TextFormat(TypedDict, total=False):
    """The format that the reply must have."""

    type: Required[Literal["text", "json_object", "json_schema"]]
    name: str
    """Of a `json_schema`: its name."""
    description: str
    schema: Mapping[str, Any]
    """Of a `json_schema`: the JSON Schema."""
    strict: bool


class TextOptions(TypedDict, total=False):
    format: TextFormat
    verbosity: str


class ReasoningOptions(TypedDict, total=False):
    effort: str
    summary: str


class ModelOptions(TypedDict, total=False):
    """The options of a call, in `ctx.options`: only those that the caller sent.

    They have the names and values of OpenAI's Responses API, over every protocol. Palaver applies `stop` and
    `text.format` even if the workflow does not; the others are up to the workflow.

    Example:
        from palaver import Context, Message, ModelOptions, chat


        @chat
        async def geographer(messages: list[Message], ctx: Context):
            options: ModelOptions = ctx.options
            yield f"Oslo is in Norway. (temperature {options.get('temperature', 0.2)})"
    """

    temperature: float
    """From 0 to 2."""
    top_p: float
    """From 0 to 1."""
    presence_penalty: float
    """From -2 to 2."""
    frequency_penalty: float
    """From -2 to 2."""
    max_output_tokens: int
    """Maximum number of tokens of the reply."""
    max_tool_calls: int
    """Maximum number of tool calls."""
    stop: Sequence[str]
    """Up to four strings. The text ends before the first of them."""
    seed: int
    """Seed for repeatable replies."""
    logit_bias: Mapping[str, Any]
    """Biases by token id."""
    text: TextOptions
    """`verbosity`, and `format` with `type` (`text`, `json_object`, `json_schema`), `name`, `schema` and `strict`."""
    reasoning: ReasoningOptions
    """`effort` and `summary`."""
    tools: Sequence[Mapping[str, Any]]
    """Tools that the caller runs, with `type`, `name`, `description` and `parameters`; and hosted tools."""
    tool_choice: str | Mapping[str, Any]
    """`auto`, `none`, `required`, or a tool by `type` and `name`."""
    parallel_tool_calls: bool
    """Whether several tools may be called at once."""
    truncation: str
    """`auto` or `disabled`."""
    prediction: Mapping[str, Any]
    """Predicted output."""
    web_search_options: Mapping[str, Any]
    """Options of the model's web search."""
    include: Sequence[str]
    """What the reply includes besides, such as `reasoning.encrypted_content`."""
    service_tier: str
    """Tier of the model's provider."""
    prompt_cache_key: str
    """Key of the prompt cache."""
    prompt_cache_options: Mapping[str, Any]
    """Options of the prompt cache."""
    prompt_cache_retention: str
    """Retention of the prompt cache."""


def required_format(options: Mapping[str, Any]) -> TextFormat | None:
    """Return the format of the reply if it has to be JSON."""
    text_format = dict_or_empty(dict_or_empty(options.get("text")).get("format"))
    return cast("TextFormat", text_format) if text_format.get("type") in ("json_object", "json_schema") else None


def required_schema(options: Mapping[str, Any]) -> TextFormat | None:
    """Return the format of the reply if it has to match a JSON Schema."""
    text_format = required_format(options)
    return text_format if text_format and text_format["type"] == "json_schema" else None


def requires_object(options: Mapping[str, Any]) -> bool:
    """Whether the reply has to be a JSON object."""
    text_format = required_format(options)
    if text_format is None:
        return False
    return text_format["type"] == "json_object" or dict_or_empty(text_format.get("schema")).get("type") == "object"


def find_format_mismatch(events: Sequence[Event], text_format: TextFormat) -> str | None:
    """Describe how a finished run's reply differs from the format; None if it matches, or is no final answer.

    May take up to `MAX_CHECK_S` seconds: call it in a thread.
    """
    from palaver.core import json_schema  # Not loaded by `import palaver`.

    last = events[-1]
    if not isinstance(last, RunFinished) or last.finish != "stop" or _is_refused(events):
        return None
    if last.value is UNSET or isinstance(last.value, str):
        texts = (
            [event.text for event in events if isinstance(event, TextEnded)] if last.value is UNSET else [last.value]
        )
        if len(texts) != 1:
            return f"it consists of {len(texts)} texts" if texts else "it has no JSON"
        try:
            value = json.decode(texts[0].encode())
        except RequestError as error:
            return error.message[:1].lower() + error.message[1:].removesuffix(".")
    else:
        value = last.value
    if text_format["type"] == "json_object":
        return None if isinstance(value, dict) else "it is not a JSON object"
    try:
        # Without values: the message of a failure is stored even where content is not.
        errors = json_schema.schema_errors(
            value, text_format.get("schema", True), timeout_s=MAX_CHECK_S, show_values=False
        )
    except json_schema.SchemaError as error:
        return str(error)
    return "; ".join(errors) or None


def _is_refused(events: Sequence[Event]) -> bool:
    return any(isinstance(event, PartAdded) and isinstance(event.part, Refusal) for event in events)
