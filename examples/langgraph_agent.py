"""A LangChain agent, served as it is. It runs offline: its model is scripted to use its one tool.

palaver serve examples/langgraph_agent.py
"""

from collections.abc import Iterator
from typing import Any

from langchain.agents import create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool

from palaver import chat


@tool
def count_letters(text: str) -> int:
    """Count the letters of a text."""
    return sum(letter.isalpha() for letter in text)


class Counter(BaseChatModel):
    """Stands for a real model: it counts what it was last told, then says what came out."""

    @property
    def _llm_type(self) -> str:
        return "counter"

    def bind_tools(self, *args: Any, **kwargs: Any) -> Any:
        return self

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            for word in ("That ", "has ", f"{last.text} ", "letters."):
                yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        else:
            count = {"name": "count_letters", "args": {"text": last.text}, "id": f"count-{len(messages)}"}
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_calls=[count]))

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        raise NotImplementedError("This model only streams.")


counter = chat(create_agent(Counter(), [count_letters]), name="counter", description="Counts letters.")
