"""What becomes of each parameter of OpenAI's SDK: a new one fails these tests until it is decided.

`server`: Palaver applies it. `workflow`: it is in `ctx.options`. `label`: it is stored or repeated. `rejected`: 400,
with its name, unless the value is a default. docs/reference/openai-options.md says the same.
"""

import inspect
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import pytest
from msgspec.structs import replace
from openai.resources.chat.completions import Completions
from openai.resources.responses import Responses

from palaver.core.descriptions import Description
from palaver.core.messages import Message
from palaver.core.runs import Call
from palaver.errors import PalaverError
from palaver.protocols import openai
from palaver.protocols.chat_completions import adapter as chat_completions
from palaver.protocols.responses import adapter as responses
from palaver.testing import client
from palaver.workflows.decorators import chat
from tests.protocols.fixed_run import HISTORY, find, request

Kind = Literal["server", "workflow", "label", "rejected"]
SDK_ONLY = {"self", "extra_headers", "extra_query", "extra_body", "timeout"}
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "openai-options.md"


class Option(NamedTuple):
    kind: Kind
    value: Any
    option: Mapping[str, Any] = MappingProxyType({})
    """What `ctx.options` has for this value."""
    call: Mapping[str, Any] = MappingProxyType({})
    """What other fields of the call have for this value."""
    default: Any = None
    """Of a rejected option: a value that is accepted, since clients send it."""


SCHEMA = {"name": "city", "schema": {"type": "object"}}
FORMAT = {"type": "json_schema", **SCHEMA}
TOOL = {"type": "function", "name": "add", "parameters": {}}

RESPONSES: dict[str, Option] = {
    "access_programs": Option("rejected", {"biology": True}, default={}),
    "background": Option("server", True, call={"background": True}),
    "context_management": Option("rejected", [{"type": "compaction"}], default=[]),
    "conversation": Option("server", "conv_1", call={"conversation": "conv_1"}),
    "image": Option("rejected", {"detail": "low"}, default={}),
    "include": Option("server", ["reasoning.encrypted_content"], {"include": ["reasoning.encrypted_content"]}),
    "input": Option("server", "Hi", call={"messages": (Message.user("Hi"),)}),
    "instructions": Option("server", "Be brief.", call={"preface": 1}),
    "max_output_tokens": Option("workflow", 5, {"max_output_tokens": 5}),
    "max_tool_calls": Option("workflow", 5, {"max_tool_calls": 5}),
    "metadata": Option("label", {"team": "blue"}, call={"tags": {"team": "blue"}}),
    "model": Option("server", "tutor", call={"workflow": "tutor"}),
    "moderation": Option("rejected", {"model": "omni"}, default={}),
    "parallel_tool_calls": Option("workflow", False, {"parallel_tool_calls": False}),
    "previous_response_id": Option("server", "resp_1", call={"previous": "resp_1"}),
    "prompt": Option("rejected", {"id": "pmpt_1"}),
    "prompt_cache_key": Option("workflow", "k", {"prompt_cache_key": "k"}),
    "prompt_cache_options": Option("workflow", {"ttl": "30m"}, {"prompt_cache_options": {"ttl": "30m"}}),
    "prompt_cache_retention": Option("workflow", "24h", {"prompt_cache_retention": "24h"}),
    "reasoning": Option("workflow", {"effort": "low"}, {"reasoning": {"effort": "low"}}),
    "safety_identifier": Option("label", "u1", call={"user": "u1"}),
    "service_tier": Option("workflow", "auto", {"service_tier": "auto"}),
    "store": Option("server", False, call={"stored": False}),
    "stream": Option("server", True),
    "stream_options": Option("rejected", {"include_obfuscation": True}, default={"include_obfuscation": False}),
    "temperature": Option("workflow", 0, {"temperature": 0}),
    "text": Option("server", {"format": FORMAT}, {"text": {"format": FORMAT}}),
    "tool_choice": Option("workflow", "none", {"tool_choice": "none"}),
    "tools": Option("server", [TOOL], {"tools": [TOOL]}, {"client_tools": {"add"}}),
    "top_logprobs": Option("rejected", 3, default=0),
    "top_p": Option("workflow", 0.5, {"top_p": 0.5}),
    "truncation": Option("workflow", "auto", {"truncation": "auto"}),
    "user": Option("label", "u1", call={"user": "u1"}),
}
CHAT: dict[str, Option] = {
    "audio": Option("rejected", {"voice": "alloy"}),
    "frequency_penalty": Option("workflow", 1, {"frequency_penalty": 1}),
    "function_call": Option("workflow", "none", {"tool_choice": "none"}),
    "functions": Option("server", [{"name": "add"}], {"tools": [{"type": "function", "name": "add"}]}),
    "logit_bias": Option("workflow", {"5": 1}, {"logit_bias": {"5": 1}}),
    "logprobs": Option("rejected", True, default=False),
    "max_completion_tokens": Option("workflow", 5, {"max_output_tokens": 5}),
    "max_tokens": Option("workflow", 5, {"max_output_tokens": 5}),
    "messages": Option("server", HISTORY, call={"messages": (Message.user("Why?"),)}),
    "metadata": Option("label", {"team": "blue"}, call={"tags": {"team": "blue"}}),
    "modalities": Option("rejected", ["text", "audio"], default=["text"]),
    "model": Option("server", "tutor", call={"workflow": "tutor"}),
    "moderation": Option("rejected", {"model": "omni"}, default={}),
    "n": Option("rejected", 2, default=1),
    "parallel_tool_calls": Option("workflow", True, {"parallel_tool_calls": True}),
    "prediction": Option("workflow", {"type": "content"}, {"prediction": {"type": "content"}}),
    "presence_penalty": Option("workflow", 1, {"presence_penalty": 1}),
    "prompt_cache_key": Option("workflow", "k", {"prompt_cache_key": "k"}),
    "prompt_cache_options": Option("workflow", {"ttl": "30m"}, {"prompt_cache_options": {"ttl": "30m"}}),
    "prompt_cache_retention": Option("workflow", "24h", {"prompt_cache_retention": "24h"}),
    "reasoning_effort": Option("workflow", "low", {"reasoning": {"effort": "low"}}),
    "response_format": Option(
        "server", {"type": "json_schema", "json_schema": SCHEMA}, {"text": {"format": FORMAT}}
    ),
    "safety_identifier": Option("label", "u1", call={"user": "u1"}),
    "seed": Option("workflow", 7, {"seed": 7}),
    "service_tier": Option("workflow", "auto", {"service_tier": "auto"}),
    "stop": Option("server", "END", {"stop": ["END"]}),
    "store": Option("label", True),
    "stream": Option("server", True),
    "stream_options": Option("server", {"include_usage": True}),
    "temperature": Option("workflow", 0, {"temperature": 0}),
    "tool_choice": Option("workflow", "none", {"tool_choice": "none"}),
    "tools": Option("server", [{"type": "function", "function": {"name": "add"}}], {
        "tools": [{"type": "function", "name": "add"}]
    }),
    "top_logprobs": Option("rejected", 3, default=0),
    "top_p": Option("workflow", 0.5, {"top_p": 0.5}),
    "user": Option("label", "u1", call={"user": "u1"}),
    "verbosity": Option("workflow", "low", {"text": {"verbosity": "low"}}),
    "web_search_options": Option("workflow", {"search_context_size": "low"}, {
        "web_search_options": {"search_context_size": "low"}
    }),
}  # fmt: skip


class Protocol(NamedTuple):
    adapter: Any
    route: str
    body: dict[str, Any]

    def decode(self, workflow: Description | None = None, **fields: Any) -> Call:
        sent = replace(request({**self.body, **fields}), route=self.route)
        return self.adapter.decode(sent, find if workflow is None else lambda _: workflow)[0]

    def error(self, workflow: Description | None = None, **fields: Any) -> tuple[str, str]:
        """Return the code and param of the rejection."""
        with pytest.raises(PalaverError) as raised:
            self.decode(workflow, **fields)
        answer = self.adapter.encode_error(raised.value, None, status=400)
        error = openai.json.decode(answer.body)["error"]
        return error["code"], error["param"]


OVER_RESPONSES = Protocol(responses, "v1/responses", {"input": "Hi"})
OVER_CHAT = Protocol(chat_completions, "v1/chat/completions", {"messages": HISTORY})
TABLE = [
    *((OVER_RESPONSES, name, option) for name, option in RESPONSES.items()),
    *((OVER_CHAT, name, option) for name, option in CHAT.items()),
]


def test_every_parameter_of_the_sdk_is_decided() -> None:
    for create, table in ((Responses.create, RESPONSES), (Completions.create, CHAT)):
        assert set(inspect.signature(create).parameters) - SDK_ONLY == table.keys()


@pytest.mark.parametrize(("protocol", "name", "option"), TABLE, ids=[f"{row[0].route}-{row[1]}" for row in TABLE])
def test_each_parameter_is_applied_passed_on_or_rejected(protocol: Protocol, name: str, option: Option) -> None:
    if option.kind == "rejected":
        code, param = protocol.error(**{name: option.value})
        assert (code, param.split(".")[0]) == ("unsupported_value", name)
        assert protocol.decode(**{name: option.default}).options == {}
    else:
        call = protocol.decode(**{name: option.value})
        assert call.options == option.option
        assert {field: getattr(call, field) for field in option.call} == option.call


def test_log_probabilities_are_rejected_where_they_would_be_included() -> None:
    assert OVER_RESPONSES.error(include=["message.output_text.logprobs"]) == ("unsupported_value", "include")
    assert OVER_RESPONSES.error(include=["everything"]) == ("invalid_value", "include")


@pytest.mark.parametrize(
    ("protocol", "field"),
    [
        *((OVER_RESPONSES, field) for field in ("response_format", "max_tokens", "reasoning_effort", "functions")),
        *((OVER_CHAT, field) for field in ("text", "max_output_tokens", "instructions", "previous_response_id")),
    ],
)
def test_fields_of_the_other_protocol_are_rejected_by_name(protocol: Protocol, field: str) -> None:
    fields: dict[str, Any] = {field: {"type": "text"}}

    assert protocol.error(**fields) == ("unsupported_value", field)


def test_options_that_a_flag_declares_as_unsupported_are_rejected() -> None:
    flags = {"is_chat": True, "structured_outputs": False, "temperature": False, "max_output_tokens": False}
    limited = Description(name="limited", flags=flags)
    schema = {"type": "json_object"}

    assert OVER_RESPONSES.error(limited, text={"format": schema}) == ("unsupported_value", "text.format")
    assert OVER_CHAT.error(limited, response_format=schema) == ("unsupported_value", "response_format")
    assert OVER_CHAT.error(limited, temperature=0) == ("unsupported_value", "temperature")
    assert OVER_CHAT.error(limited, max_tokens=5) == ("unsupported_value", "max_completion_tokens")
    assert OVER_CHAT.decode(limited, response_format={"type": "text"}, top_p=1).options["top_p"] == 1


async def test_a_workflow_declares_that_it_does_not_support_structured_outputs() -> None:
    @chat(flags={"structured_outputs": False})
    def poet(messages: list[Message]) -> str:
        return "Roses are red."

    async with client(poet) as http:
        body = {"model": "poet", "input": "Hi", "text": {"format": {"type": "json_object"}}}
        refused = await http.post("/v1/responses", json=body)
        plain = await http.post("/v1/responses", json=body | {"text": {"format": {"type": "text"}}})

    assert (refused.status_code, plain.status_code) == (400, 200)
    assert refused.json()["error"] == {
        "message": "Workflow 'poet' does not support text.format.",
        "type": "invalid_request",
        "code": "unsupported_value",
        "param": "text.format",
    }


def test_stop_needs_a_chat() -> None:
    headline = find("headline")

    assert OVER_CHAT.error(headline, stop="END") == ("unsupported_value", "stop")


def test_the_documentation_lists_every_parameter_with_its_effect() -> None:
    effects = {"applied": "server", "passed on": "workflow", "label": "label", "rejected": "rejected"}
    apis = {"Responses": [RESPONSES], "Chat Completions": [CHAT], "both": [RESPONSES, CHAT]}
    documented: list[dict[str, str]] = [{}, {}]
    for names, api, effect in re.findall(r"^\| (`.+?`) \| (.+?) \| (passed on|\w+)", PAGE.read_text(), re.MULTILINE):
        for table, known in zip((RESPONSES, CHAT), documented, strict=True):
            if table in apis[api]:
                known.update(dict.fromkeys(re.findall(r"`(\w+)`", names), effects[effect]))

    assert documented[0] == {name: option.kind for name, option in RESPONSES.items()}
    assert documented[1] == {name: option.kind for name, option in CHAT.items()}
