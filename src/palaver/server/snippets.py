"""Complete example programs that call a workflow, one per client. They read the API key from a variable, if needed."""

import shlex
from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, cast

import msgspec

from palaver.core import json
from palaver.core.descriptions import Description

Client = Literal["curl", "openai-python", "openai-node", "ai-sdk", "langchain"]
Language = Literal["bash", "python", "javascript"]

_EXAMPLE_TEXT = "Hello!"
_NO_DEFINITIONS: Mapping[str, Any] = {}
_MAX_DEPTH, _MAX_FIELDS = 3, 20
"""Limits of an example: the schema of a remote service may be very large."""


class Snippet(msgspec.Struct, frozen=True):
    client: Client
    language: Language
    code: str


class _SnippetContext(NamedTuple):
    name: str
    url: str
    is_chat: bool
    inputs: Mapping[str, Any]
    keyed: bool


def snippets(description: Description, base: str, *, keyed: bool) -> list[Snippet]:
    context = _snippet_context(description, base, keyed=keyed)
    return [Snippet(client, language, write(context)) for client, language, write in _CLIENTS]


def curl_command(description: Description, base: str) -> str:
    return _curl(_snippet_context(description, base, keyed=False)).removesuffix("\n")


def _snippet_context(description: Description, base: str, *, keyed: bool) -> _SnippetContext:
    name, inputs = description.name, example_inputs(description.schemas.inputs)
    return _SnippetContext(name, f"{base}/{name}", description.is_chat, inputs, keyed)


# The programs


def _curl(context: _SnippetContext) -> str:
    body: dict[str, Any] = {"messages": [{"role": "user", "content": _EXAMPLE_TEXT}]} if context.is_chat else {}
    if context.inputs or not body:
        body["inputs"] = context.inputs
    lines = [f"curl {shlex.quote(f'{context.url}/invoke')}", "  -H 'content-type: application/json'"]
    if context.keyed:
        lines.append('  -H "authorization: Bearer $PALAVER_KEY"')
    data = _json(body).replace("'", "'\\''")
    return " \\\n".join([*lines, f"  -d '{data}'"]) + "\n"


def _openai_python(context: _SnippetContext) -> str:
    key = 'os.environ["PALAVER_KEY"]' if context.keyed else '"none"'
    arguments = [
        f"model={_json(context.name)}",
        f"input={_json(_EXAMPLE_TEXT if context.is_chat else '')}",
        *_extra_body(context),
    ]
    return (
        f"{_imports(context)}from openai import OpenAI\n\n"
        f"client = OpenAI(base_url={_json(f'{context.url}/v1')}, api_key={key})\n\n"
        f"response = client.responses.create({', '.join(arguments)})\n"
        "print(response.output_text)\n"
    )


def _openai_node(context: _SnippetContext) -> str:
    key = "process.env.PALAVER_KEY" if context.keyed else '"none"'
    arguments: dict[str, Any] = {"model": context.name, "input": _EXAMPLE_TEXT if context.is_chat else ""}
    if context.inputs:
        arguments["custom_inputs"] = context.inputs
    return (
        "import OpenAI from 'openai';\n\n"
        f"const client = new OpenAI({{ baseURL: {_json(f'{context.url}/v1')}, apiKey: {key} }});\n\n"
        f"const response = await client.responses.create({_json(arguments)});\n"
        "console.log(response.output_text);\n"
    )


def _ai_sdk(context: _SnippetContext) -> str:
    options = [f"api: {_json(f'{context.url}/api/chat')}"]
    if context.keyed:
        options.append("headers: { authorization: `Bearer ${process.env.PALAVER_KEY}` }")
    if context.inputs:
        options.append(f"body: {_json({'inputs': context.inputs})}")
    question = {"id": "u1", "role": "user", "parts": [{"type": "text", "text": _EXAMPLE_TEXT}]}
    messages = _json([question] if context.is_chat else [])
    return (
        "import { DefaultChatTransport, readUIMessageStream } from 'ai';\n\n"
        "// In a component: useChat({ transport }).\n"
        f"const transport = new DefaultChatTransport({{ {', '.join(options)} }});\n\n"
        f"const messages = {messages};\n"
        "const stream = await transport.sendMessages({ chatId: 'chat-1', messages, trigger: 'submit-message' });\n\n"
        "let answer;\n"
        "for await (const message of readUIMessageStream({ stream })) answer = message;\n"
        f"{_PRINT_TEXT if context.is_chat else _PRINT_OUTPUT}"
    )


_PRINT_TEXT = "console.log(answer.parts.filter((part) => part.type === 'text').map((part) => part.text).join(''));\n"
_PRINT_OUTPUT = (
    "const output = answer.parts.find(({ type }) => type === 'text' || type === 'data-output');\n"
    "console.log(output.text ?? JSON.stringify(output.data));\n"
)


def _langchain(context: _SnippetContext) -> str:
    key = 'SecretStr(os.environ["PALAVER_KEY"])' if context.keyed else 'SecretStr("none")'
    options = [f"model={_json(context.name)}", f"base_url={_json(f'{context.url}/v1')}", f"api_key={key}"]
    options += ["use_responses_api=True", *_extra_body(context)]
    lines = "".join(f"    {option},\n" for option in options)
    return (
        f"{_imports(context)}from langchain_openai import ChatOpenAI\nfrom pydantic import SecretStr\n\n"
        f"model = ChatOpenAI(\n{lines})\n\n"
        f"print(model.invoke({_json(_EXAMPLE_TEXT if context.is_chat else '')}).text)\n"
    )


def _imports(context: _SnippetContext) -> str:
    return "import os\n\n" if context.keyed else ""


def _extra_body(context: _SnippetContext) -> list[str]:
    return [f"extra_body={_python_literal({'custom_inputs': context.inputs})}"] if context.inputs else []


_CLIENTS: tuple[tuple[Client, Language, Callable[[_SnippetContext], str]], ...] = (
    ("curl", "bash", _curl),
    ("openai-python", "python", _openai_python),
    ("openai-node", "javascript", _openai_node),
    ("ai-sdk", "javascript", _ai_sdk),
    ("langchain", "python", _langchain),
)


def _json(value: Any) -> str:
    """Encode as JSON, which is also valid JavaScript, and for strings valid Python."""
    return json.encode(value).decode()


def _python_literal(value: Any) -> str:
    match value:
        case None | bool():
            return str(value)
        case dict():
            pairs = cast("dict[str, Any]", value).items()
            return f"{{{', '.join(f'{_json(key)}: {_python_literal(item)}' for key, item in pairs)}}}"
        case list():
            return f"[{', '.join(_python_literal(item) for item in cast('list[Any]', value))}]"
        case _:
            return _json(value)


# Example inputs


def example_inputs(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the first example of a schema, else a value for each required field."""
    examples = schema.get("examples")
    first: Any = cast("list[Any]", examples)[0] if isinstance(examples, list) and examples else None
    if isinstance(first, dict):
        return {name: value for name, value in cast("dict[str, Any]", first).items() if name != "messages"}
    inputs = _example_object(schema, schema, 0)
    inputs.pop("messages", None)
    return {"text": _EXAMPLE_TEXT} if not schema.get("required") and schema.get("additionalProperties") else inputs


def _example_object(schema: Mapping[str, Any], root: Mapping[str, Any], depth: int) -> dict[str, Any]:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, Mapping) or not isinstance(required, list):
        return {}
    fields = cast("Mapping[str, Any]", properties)
    names = [name for name in cast("list[Any]", required)[:_MAX_FIELDS] if isinstance(name, str)]
    return {name: _example_value(fields.get(name), root, depth + 1) for name in names}


def _example_value(schema: Any, root: Mapping[str, Any], depth: int) -> Any:
    if depth > _MAX_DEPTH:
        return None
    match schema:
        case {"examples": [first, *_]} | {"enum": [first, *_]} | {"const": first} | {"default": first}:
            return first
        case {"$ref": str(reference)}:
            definitions = root.get("$defs")
            schemas = cast("Mapping[str, Any]", definitions) if isinstance(definitions, Mapping) else _NO_DEFINITIONS
            return _example_value(schemas.get(reference.removeprefix("#/$defs/")), root, depth + 1)
        case {"anyOf": [first, *_]} | {"oneOf": [first, *_]} | {"type": [first, *_]}:
            return _example_value({"type": first} if isinstance(first, str) else first, root, depth + 1)
        case {"type": "integer" | "number"}:
            minimum: Any = cast("dict[str, Any]", schema).get("minimum")
            return minimum if isinstance(minimum, int) else 1
        case {"type": "boolean"}:
            return True
        case {"type": "array"}:
            return []
        case {"type": "object"}:
            return _example_object(cast("dict[str, Any]", schema), root, depth)
        case {"type": "null"}:
            return None
        case _:
            return "Some text."
