"""Palaver's conversion of LangChain messages agrees with MLflow's, where MLflow's is correct.

MLflow raises on list content and on calls without ids, and repeats ids; such messages are not compared.
"""

import json
import warnings
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from palaver.frameworks.langchain import message_to_items, stream_to_responses
from tests.frameworks.langchain_models import call

with warnings.catch_warnings():
    # MLflow warns about its own type hints on import.
    warnings.filterwarnings("ignore", message=".*Any type hint is inferred as AnyType")
    from mlflow.types.responses import _langchain_message_stream_to_responses_stream as by_mlflow

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | texts,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2),
    max_leaves=4,
)


@st.composite
def conversations(draw: st.DrawFn) -> list[BaseMessage]:
    """Lists of messages as agents make them: each call has an id, each result a call, each message an id."""
    messages: list[BaseMessage] = []
    for turn in range(draw(st.integers(0, 3))):
        messages += [HumanMessage(draw(texts)), SystemMessage(draw(texts))][: draw(st.integers(0, 2))]
        tool_calls = [
            call(
                draw(st.sampled_from(["f", "g"])),
                f"c{turn}.{number}",
                **draw(st.dictionaries(texts, values, max_size=2)),
            )
            for number in range(draw(st.integers(0, 2)))
        ]
        messages.append(AIMessage(draw(texts), tool_calls=tool_calls, id=f"m{turn}"))
        for each in tool_calls:
            content: Any = draw(
                texts | st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts), max_size=2)
            )
            messages.append(ToolMessage(content, tool_call_id=each["id"], id=f"t{each['id']}"))
    return messages


def summarize_item(item: dict[str, Any]) -> tuple[Any, ...]:
    """Return the fields that both converters share: each generates its own item ids for calls and results."""
    match item["type"]:
        case "message":
            return "message", item["id"], item["role"], [part["text"] for part in item["content"]]
        case "function_call":
            return "call", item["call_id"], item["name"], json.loads(item["arguments"])
        case _:
            return "result", item["call_id"], _value(item["output"])


def _value(output: str) -> Any:
    """Parse a list, which both write as JSON text with different spacing and escaping; a text is returned unchanged."""
    try:
        return json.loads(output) if output.startswith("[") else output
    except json.JSONDecodeError:
        return output


def mlflow_items(messages: list[BaseMessage]) -> list[tuple[Any, ...]]:
    return [summarize_item(event.model_dump()["item"]) for event in by_mlflow(iter(messages))]


@given(conversations())
async def test_a_stream_of_messages_gives_the_same_items_as_mlflow(messages: list[BaseMessage]) -> None:
    events = [event async for event in stream_to_responses(messages)]
    finished = [event["item"] for event in events if event["type"] == "response.output_item.done"]

    assert [summarize_item(item) for item in finished] == mlflow_items(messages)
    assert events[-1]["response"]["output"] == finished


@given(conversations())
def test_converting_each_message_alone_gives_the_same_items_as_mlflow(messages: list[BaseMessage]) -> None:
    ours = [summarize_item(item) for message in messages for item in message_to_items(message)]

    assert ours == mlflow_items(messages)
