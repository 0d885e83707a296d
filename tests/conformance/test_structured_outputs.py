"""Structured outputs and stop sequences, as clients ask for them."""

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import openai
import pytest
from agents import Agent as OpenAIAgent
from agents import OpenAIResponsesModel as AgentsResponsesModel
from agents import RunConfig, Runner
from langchain_openai import ChatOpenAI
from openai.types.responses import ResponseTextDoneEvent
from pydantic import BaseModel, SecretStr
from pydantic_ai import Agent, NativeOutput
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.openai import OpenAIProvider

from tests.conformance.node_drivers import Driver
from tests.server_process import ServerProcess


class City(BaseModel):
    """A city."""

    name: str
    inhabitants: int


OSLO = City(name="Oslo", inhabitants=700_000)
MISMATCH = "The reply does not match the required format: /inhabitants is not of type 'integer'."


def script(*texts: str) -> str:
    """Return a user message that the scripted workflow answers with these pieces of text."""
    return json.dumps([{"text": text} for text in texts])


MATCHING = script('{"name": "Os', 'lo", "inhabitants": 700000}')
MISMATCHED = script('{"name": "Oslo", ', '"inhabitants": "many"}')


@pytest.fixture
def client(server: ServerProcess) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="none") as client:
        yield client


@pytest.fixture
async def async_client(server: ServerProcess) -> AsyncIterator[openai.AsyncOpenAI]:
    async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0) as client:
        yield client


def message(content: str) -> Any:
    return {"role": "user", "content": content}


# --- Replies that match


def test_responses_parse_returns_the_model(client: openai.OpenAI) -> None:
    response = client.responses.parse(model="scripted", input=MATCHING, text_format=City)

    assert response.output_parsed == OSLO
    assert response.text is not None
    assert response.text.format is not None
    assert response.text.format.type == "json_schema"


def test_chat_completions_parse_returns_the_model(client: openai.OpenAI) -> None:
    completion = client.chat.completions.parse(model="scripted", messages=[message(MATCHING)], response_format=City)

    assert completion.choices[0].message.parsed == OSLO


def test_a_workflow_reads_the_schema_from_its_options(client: openai.OpenAI) -> None:
    response = client.responses.parse(model="probed", input="Which city?", text_format=City)

    assert response.output_parsed == City(name="Paris", inhabitants=4)


def test_streams_return_the_model(client: openai.OpenAI) -> None:
    with client.responses.stream(model="scripted", input=MATCHING, text_format=City) as stream:
        parsed = [event.parsed for event in stream if isinstance(event, ResponseTextDoneEvent)]
        assert stream.get_final_response().output_parsed == OSLO
    assert parsed == [OSLO]

    with client.chat.completions.stream(
        model="scripted", messages=[message(MATCHING)], response_format=City
    ) as completion:
        assert completion.until_done().get_final_completion().choices[0].message.parsed == OSLO


@pytest.mark.parametrize("use_responses_api", [False, True])
@pytest.mark.parametrize("method", ["json_schema", "json_mode"])
def test_langchain_with_structured_output(server: ServerProcess, method: Any, use_responses_api: bool) -> None:
    with httpx.Client() as http_client:
        model = ChatOpenAI(
            model="scripted",
            base_url=f"{server.url}/v1",
            api_key=SecretStr("none"),
            use_responses_api=use_responses_api,
            max_retries=0,
            http_client=http_client,
        ).with_structured_output(City, method=method)

        assert model.invoke(MATCHING) == OSLO
        with pytest.raises(openai.InternalServerError, match="does not match the required format"):
            model.invoke(MISMATCHED if method == "json_schema" else script("Oslo."))


@pytest.mark.parametrize("model_class", [OpenAIChatModel, OpenAIResponsesModel])
async def test_pydantic_ai_with_native_output(async_client: openai.AsyncOpenAI, model_class: Any) -> None:
    model = model_class("scripted", provider=OpenAIProvider(openai_client=async_client))
    agent = Agent(model, output_type=NativeOutput(City))

    assert (await agent.run(MATCHING)).output == OSLO


async def test_openai_agents_with_an_output_type(async_client: openai.AsyncOpenAI) -> None:
    config = RunConfig(tracing_disabled=True)
    agent = OpenAIAgent(name="caller", model=AgentsResponsesModel("scripted", async_client), output_type=City)

    assert (await Runner.run(agent, MATCHING, run_config=config)).final_output == OSLO
    with pytest.raises(openai.InternalServerError, match="does not match the required format"):
        await Runner.run(agent, MISMATCHED, run_config=config)


# --- Replies that do not match


def test_a_reply_that_does_not_match_fails_the_run(client: openai.OpenAI) -> None:
    with pytest.raises(openai.InternalServerError) as raised:
        client.responses.parse(model="scripted", input=MISMATCHED, text_format=City)
    assert (raised.value.code, raised.value.status_code) == ("format_mismatch", 500)
    assert raised.value.body == {"message": MISMATCH, "type": "model_error", "code": "format_mismatch", "param": None}

    with pytest.raises(openai.InternalServerError) as raised:
        client.chat.completions.parse(model="scripted", messages=[message(MISMATCHED)], response_format=City)
    assert raised.value.body == {"message": MISMATCH, "type": "model_error", "code": "format_mismatch", "param": None}


def test_a_streamed_reply_that_does_not_match_ends_with_an_error(client: openai.OpenAI) -> None:
    with (
        client.responses.stream(model="scripted", input=MISMATCHED, text_format=City) as stream,
        pytest.raises(openai.APIError, match="does not match the required format") as raised,
    ):
        stream.until_done()
    assert raised.value.code == "format_mismatch"

    with (
        client.chat.completions.stream(
            model="scripted", messages=[message(MISMATCHED)], response_format=City
        ) as completion,
        pytest.raises(openai.APIError, match="does not match the required format") as raised,
    ):
        completion.until_done()
    assert raised.value.code == "format_mismatch"


def test_a_stored_response_that_does_not_match_is_failed(client: openai.OpenAI) -> None:
    text: Any = {"format": {"type": "json_schema", "name": "city", "schema": {"type": "array"}}}
    with client.responses.create(model="scripted", input=MISMATCHED, text=text, stream=True) as stream:
        response_id = next(event.response.id for event in stream if event.type == "response.created")
        with pytest.raises(openai.APIError, match="the value is not of type 'array'"):
            list(stream)

    stored = client.responses.retrieve(response_id)
    assert stored.status == "failed"
    assert stored.error is not None
    assert stored.error.code == "format_mismatch"


@pytest.mark.parametrize(
    ("texts", "reason"),
    [
        (["Oslo."], "it has no JSON"),
        (["[1]"], "it is not a JSON object"),
        (["{Oslo}"], "invalid JSON: "),
        ([], "it has no JSON"),
    ],
)
def test_json_mode_requires_an_object(client: openai.OpenAI, texts: list[str], reason: str) -> None:
    with pytest.raises(openai.InternalServerError, match=reason):
        client.chat.completions.create(
            model="scripted", messages=[message(script(*texts))], response_format={"type": "json_object"}
        )

    answer = client.chat.completions.create(
        model="scripted", messages=[message(script(' {"a": [1]}\n'))], response_format={"type": "json_object"}
    )
    assert answer.choices[0].message.content == ' {"a": [1]}\n'


def test_text_before_a_tool_call_is_reasoning(client: openai.OpenAI) -> None:
    steps = [{"text": "Let me look."}, {"tool_call": {"name": "t", "id": "c1"}}, {"tool_result": {"id": "c1"}}]
    prompt = json.dumps([*steps, {"text": OSLO.model_dump_json()}])

    response = client.responses.parse(model="scripted", input=prompt, text_format=City)
    assert ([item.type for item in response.output], response.output_parsed) == (
        ["reasoning", "mcp_call", "message"],
        OSLO,
    )

    with client.responses.stream(model="scripted", input=prompt, text_format=City) as stream:
        assert stream.get_final_response().output_parsed == OSLO

    completion = client.chat.completions.parse(model="scripted", messages=[message(prompt)], response_format=City)
    assert completion.choices[0].message.parsed == OSLO


def test_several_json_texts_are_no_reply(client: openai.OpenAI) -> None:
    texts = [{"text": "{}"}, {"break": True}, {"text": "{}"}]
    with pytest.raises(openai.InternalServerError, match="it consists of 2 texts"):
        client.responses.parse(model="scripted", input=json.dumps(texts), text_format=City)


def test_calls_of_the_client_are_not_checked(client: openai.OpenAI) -> None:
    tool: Any = {"type": "function", "name": "look_up", "parameters": {}, "strict": False}
    called = client.responses.create(
        model="scripted",
        input=json.dumps([{"text": "Let me look."}, {"tool_call": {"name": "look_up", "id": "c1"}}]),
        tools=[tool],
        text={"format": {"type": "json_object"}},
    )
    assert [item.type for item in called.output] == ["reasoning", "function_call"]


NODE_CLIENTS = (
    *("ai6 responses", "ai6 chat", "ai6 responses streamed", "ai6 chat streamed", "ai7 responses", "ai7 chat"),
    *("openai responses", "openai responses streamed", "openai chat"),
)


@pytest.mark.parametrize("way", NODE_CLIENTS)
def test_node_clients_get_the_object_or_the_error(
    server: ServerProcess, drivers: Callable[[str], Driver], way: str
) -> None:
    request = {"way": way, "url": server.url, "workflow": "scripted"}

    matching = drivers("structured").ask(prompt=MATCHING, **request)
    mismatched = drivers("structured").ask(prompt=MISMATCHED, **request)

    assert (matching["error"], [json.loads(text) for text in matching["text"]]) == (None, [OSLO.model_dump()])
    assert mismatched["text"] == []
    assert MISMATCH in mismatched["error"]["message"]


# --- Schemas that cannot be used


@pytest.mark.parametrize(
    ("schema", "message_start"),
    [
        ({"type": "objekt"}, "Invalid schema: /type has an invalid value: 'objekt'."),
        ({"$ref": "http://127.0.0.1/schema.json"}, "Invalid schema: reference 'http://127.0.0.1/schema.json'"),
        ({"pattern": "(" * 40 + "a" + "{1,100})" * 40}, "Invalid schema: its regular expressions are too long"),
        ({"const": "x" * 70_000}, "The schema is 70,012 bytes long"),
    ],
    ids=["keyword", "reference", "pattern", "size"],
)
def test_a_schema_that_cannot_be_used_is_a_bad_request(
    client: openai.OpenAI, schema: dict[str, Any], message_start: str
) -> None:
    named: Any = {"name": "city", "schema": schema}
    text: Any = {"format": {"type": "json_schema", **named}}
    with pytest.raises(openai.BadRequestError) as raised:
        client.responses.create(model="scripted", input="[]", text=text)
    assert (raised.value.param, raised.value.code) == ("text.format.schema", "invalid_value")
    assert raised.value.body["message"].startswith(message_start)  # pyright: ignore[reportIndexIssue,reportOptionalSubscript]

    with pytest.raises(openai.BadRequestError) as raised:
        client.chat.completions.create(
            model="scripted",
            messages=[message("[]")],
            response_format={"type": "json_schema", "json_schema": named},
        )
    assert raised.value.param == "response_format.json_schema.schema"


def test_a_schema_that_never_ends_fails_the_run_in_bounded_time(client: openai.OpenAI) -> None:
    repeated = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    schema = {"$ref": "#/$defs/a0", "$defs": {**repeated, "a40": {}}}
    with pytest.raises(openai.InternalServerError, match="validation took longer than 1 s"):
        client.responses.create(
            model="scripted",
            input=script("{}"),
            text={"format": {"type": "json_schema", "name": "n", "schema": schema}},
        )


# --- Stop sequences


def test_text_ends_before_the_first_stop_sequence(client: openai.OpenAI) -> None:
    prompt = [message(script("One. T", "wo. E", "N", "D. Three.", " END."))]
    completion = client.chat.completions.create(model="scripted", messages=prompt, stop=["END", "Three"])
    assert completion.choices[0].message.content == "One. Two. "
    assert completion.choices[0].finish_reason == "stop"

    chunks = list(client.chat.completions.create(model="scripted", messages=prompt, stop="END", stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "One. Two. "
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_responses_apply_stop_as_well(client: openai.OpenAI) -> None:
    response = client.responses.create(model="scripted", input=script("One. EN", "D"), extra_body={"stop": ["END"]})

    assert (response.output_text, response.status) == ("One. ", "completed")
    assert client.responses.retrieve(response.id).output_text == "One. "
