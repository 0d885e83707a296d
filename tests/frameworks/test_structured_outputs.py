"""Agents of each framework pass the caller's JSON Schema on to their model, which is another Palaver server here."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agents import Agent as OpenAIAgent
from agents import OpenAIChatCompletionsModel, OpenAIResponsesModel
from langchain.agents import create_agent
from langchain_core.language_models import FakeListChatModel
from langchain_core.prompts import ChatPromptTemplate
from langchain_openai import ChatOpenAI
from openai import AsyncOpenAI
from pydantic import BaseModel, SecretStr
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.models.openai import OpenAIResponsesModel as PydanticResponsesModel
from pydantic_ai.models.test import TestModel as Model
from pydantic_ai.providers.openai import OpenAIProvider

from palaver import Context, Message, ToolCall, chat
from palaver.core.events import RunFailed
from palaver.engine.run import Run
from palaver.testing import client
from tests.engine.run_factory import NOW, QUESTION, last_event, reply_of, run_to_end

SCHEMA = {
    "type": "object",
    "properties": {"type": {"type": "string"}},
    "required": ["type"],
    "additionalProperties": True,
}
OPTIONS: Any = {"text": {"format": {"type": "json_schema", "name": "city", "schema": SCHEMA, "strict": False}}}
NO_JSON = RunFailed(
    code="format_mismatch", message="The reply does not match the required format: it has no JSON.", at=NOW
)


@chat
def model(messages: list[Message], ctx: Context) -> object:
    """Answers with the format that it was asked for: by a schema of its text, or of a tool."""
    if text_format := ctx.options.get("text", {}).get("format"):
        return json.dumps(text_format)
    if tools := ctx.options.get("tools"):
        return ToolCall(call_id="c1", name=tools[0]["name"], arguments=json.dumps({"type": "tool", **tools[0]}))
    return "I was asked for nothing."


@pytest.fixture
async def http() -> AsyncIterator[Any]:
    async with client(model) as http:
        yield http


@pytest.fixture
def openai_client(http: Any) -> AsyncOpenAI:
    return AsyncOpenAI(base_url="http://localhost/v1", api_key="none", http_client=http, max_retries=0)


def answer(run: Run) -> Any:
    return json.loads(reply_of(run).messages[-1].text)


def schema_of(asked: Any) -> Any:
    """Return the properties of the schema, which clients may extend by a title."""
    return asked["schema"]["properties"]


def langchain_model(http: Any, *, responses: bool) -> ChatOpenAI:
    return ChatOpenAI(
        model="model",
        base_url="http://localhost/v1",
        api_key=SecretStr("none"),
        http_async_client=http,
        max_retries=0,
        use_responses_api=responses,
    )


@pytest.mark.parametrize("responses", [False, True])
@pytest.mark.parametrize("in_chain", [False, True])
async def test_a_langchain_model_is_asked_for_the_schema(http: Any, in_chain: bool, responses: bool) -> None:
    caller: Any = langchain_model(http, responses=responses)
    prompt = ChatPromptTemplate.from_messages([("placeholder", "{messages}")])
    served = chat(prompt | caller if in_chain else caller, name="caller")

    assert schema_of(answer(await run_to_end(served, QUESTION, options=OPTIONS))) == SCHEMA["properties"]
    assert reply_of(await run_to_end(served, QUESTION)).messages[-1].text == "I was asked for nothing."


async def test_schemas_with_references_are_passed_on(http: Any, openai_client: AsyncOpenAI) -> None:
    schema = {"$defs": {"kind": {"type": "string"}}, **SCHEMA, "properties": {"type": {"$ref": "#/$defs/kind"}}}
    options = {"text": {"format": {"type": "json_schema", "name": "city", "schema": schema}}}
    agent = PydanticAgent(OpenAIChatModel("model", provider=OpenAIProvider(openai_client=openai_client)), name="caller")
    doubled = {"type": "object", "properties": {"type": {"$ref": "#/$defs/a0"}}, "$defs": {**REPEATED, "a40": {}}}
    doubled_options = {"text": {"format": {"type": "json_schema", "name": "n", "schema": doubled}}}
    caller = chat(langchain_model(http, responses=True), name="caller")

    assert answer(await run_to_end(chat(agent), QUESTION, options=options))["parameters"]["properties"] == {
        "type": {"type": "string"}
    }
    assert schema_of(answer(await run_to_end(caller, QUESTION, options=options))) == schema["properties"]
    assert schema_of(answer(await run_to_end(caller, QUESTION, options=doubled_options))) == doubled["properties"]


async def test_langchain_models_without_structured_output_and_agents_are_only_checked(http: Any) -> None:
    parrot = chat(FakeListChatModel(responses=["Polly."]), name="parrot")
    agent = chat(create_agent(langchain_model(http, responses=True), []), name="caller")

    assert last_event(await run_to_end(parrot, QUESTION, options=OPTIONS)) == NO_JSON
    assert last_event(await run_to_end(agent, QUESTION, options=OPTIONS)) == NO_JSON


@pytest.mark.parametrize("model_class", [OpenAIChatCompletionsModel, OpenAIResponsesModel])
async def test_an_openai_agent_is_asked_for_the_schema(openai_client: AsyncOpenAI, model_class: Any) -> None:
    agent = OpenAIAgent(name="caller", model=model_class("model", openai_client))

    asked = answer(await run_to_end(chat(agent), QUESTION, options=OPTIONS))

    assert (schema_of(asked), asked["strict"]) == (SCHEMA["properties"], False)
    assert agent.output_type is None


class City(BaseModel):
    type: str


async def test_the_output_type_of_an_openai_agent_is_kept(openai_client: AsyncOpenAI) -> None:
    agent = OpenAIAgent(name="caller", model=OpenAIResponsesModel("model", openai_client), output_type=City)

    assert answer(await run_to_end(chat(agent), QUESTION, options=OPTIONS))["name"] == "final_output"


@pytest.mark.parametrize("model_class", [OpenAIChatModel, PydanticResponsesModel])
async def test_a_pydantic_ai_agent_is_asked_for_the_schema(openai_client: AsyncOpenAI, model_class: Any) -> None:
    agent = PydanticAgent(model_class("model", provider=OpenAIProvider(openai_client=openai_client)), name="caller")

    asked = answer(await run_to_end(chat(agent), QUESTION, options=OPTIONS))

    assert asked["type"] in ("function", "json_schema")
    assert asked.get("parameters", asked.get("schema"))["properties"] == SCHEMA["properties"]


REPEATED = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": {"not": {"$ref": "#/$defs/a"}}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a0"}}, "$defs": {**REPEATED, "a40": {}}},
        {"type": "object", "properties": {"a": {"$ref": "#/$defs/a"}}, "$defs": {"a": True}},
    ],
)
async def test_schemas_that_pydantic_ai_does_not_support_are_only_checked(schema: Any) -> None:
    agent = PydanticAgent(Model(custom_output_text="Polly."), name="parrot")
    options = {"text": {"format": {"type": "json_schema", "name": "list", "schema": schema}}}

    assert last_event(await run_to_end(chat(agent), QUESTION, options=options)) == NO_JSON


async def test_arrays_are_only_checked_since_pydantic_ai_does_not_support_them() -> None:
    agent = PydanticAgent(Model(custom_output_text="[1]"), name="parrot")
    schema = {"type": "array", "items": {"type": "string"}}
    run = await run_to_end(
        chat(agent), QUESTION, options={"text": {"format": {"type": "json_schema", "name": "list", "schema": schema}}}
    )

    last = last_event(run)
    assert isinstance(last, RunFailed)
    assert last.message == "The reply does not match the required format: /0 is not of type 'string'."


async def test_output_validators_of_a_pydantic_ai_agent_are_kept() -> None:
    agent = PydanticAgent(Model(custom_output_text="Polly."), name="parrot")
    agent.output_validator(lambda output: output)

    assert last_event(await run_to_end(chat(agent), QUESTION, options=OPTIONS)) == NO_JSON
