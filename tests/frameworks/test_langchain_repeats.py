"""LangChain with another instrumentation: steps that both report are shown and counted once."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from langchain.agents import create_agent
from langchain_core.tools import tool
from openinference.instrumentation.langchain import LangChainInstrumentor
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from palaver import chat
from tests.frameworks.langchain_models import Scripted, call, tool_call_message, words
from tests.frameworks.span_trees import trace_run, tree


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[TracerProvider]:
    created = TracerProvider(shutdown_on_exit=False)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: created)
    yield created
    created.shutdown()


@tool
async def double(x: int) -> int:
    """Twice as much."""
    return 2 * x


async def test_openinference_spans_replace_palavers_own_langchain_spans(provider: TracerProvider) -> None:
    turns = [tool_call_message(call("double", "c1", x=2)), words("It is 4.")]
    LangChainInstrumentor().instrument(tracer_provider=provider)
    try:
        spans = await trace_run(chat(create_agent(Scripted(turns=turns), [double], name="maths")))
    finally:
        LangChainInstrumentor().uninstrument()

    assert {span.scope for span in spans[1:]} == {"openinference.instrumentation.langchain"}
    assert [span.name for span in spans if span.kind == "tool"] == ["double"]
    assert len([span for span in spans if span.kind == "llm"]) == 2
    assert tree(spans)[0] == "invoke_workflow maths"


INSTRUMENTED_PROGRAM = """
import asyncio
import msgspec
from langchain_openai import ChatOpenAI
from opentelemetry import trace
from opentelemetry.instrumentation.openai import OpenAIInstrumentor
from opentelemetry.sdk.trace import TracerProvider

from palaver import Message, chat
from palaver.testing import client, scripted
from tests.frameworks.span_trees import trace_run

SCRIPT = [{"text": "Hi."}, {"usage": {"input_tokens": 3, "output_tokens": 4}}]

async def main():
    async with client(scripted) as http:
        given = {"http_async_client": http, "stream_usage": True, "use_responses_api": False}
        model = ChatOpenAI(model="scripted", base_url="http://localhost/v1", api_key="none", **given)
        asked = Message.user(msgspec.json.encode(SCRIPT).decode())
        for span in await trace_run(chat(model, name="model"), asked):
            print(span.kind, span.usage.total_tokens, span.scope)

trace.set_tracer_provider(TracerProvider())
OpenAIInstrumentor().instrument()
asyncio.run(main())
"""


def test_a_call_that_the_openai_instrumentation_reports_is_counted_once() -> None:
    # In a separate process: the instrumentation cannot be undone.
    finished = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", INSTRUMENTED_PROGRAM], capture_output=True, text=True, check=True
    )

    assert finished.stdout.splitlines() == ["workflow 7 palaver", "llm 7 opentelemetry.instrumentation.openai.v1"]
