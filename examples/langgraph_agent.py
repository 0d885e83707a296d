"""An unmodified LangGraph agent: its tokens, tool calls and tool results are streamed as they happen.

palaver serve examples/langgraph_agent.py
"""

from collections.abc import Iterator
from typing import Any

from langchain_core.language_models import BaseChatModel
from langchain_core.language_models.chat_models import generate_from_stream
from langchain_core.messages import AIMessageChunk, BaseMessage, ToolMessage
from langchain_core.messages.tool import tool_call
from langchain_core.outputs import ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from palaver import chat


class Counter(BaseChatModel):
    """A stand-in for a real model: it calls the tool with the user's text, then reports the result."""

    @property
    def _llm_type(self) -> str:
        return "counter"

    def _stream(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Iterator[ChatGenerationChunk]:
        last = messages[-1]
        if isinstance(last, ToolMessage):
            for word in ("That ", "has ", f"{last.text} ", "letters."):
                yield ChatGenerationChunk(message=AIMessageChunk(content=word))
        else:
            count = tool_call(name="count_letters", args={"text": last.text}, id=f"count-{len(messages)}")
            yield ChatGenerationChunk(message=AIMessageChunk(content="", tool_calls=[count]))

    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return generate_from_stream(self._stream(messages))


@tool
def count_letters(text: str) -> int:
    """Count the letters of a text."""
    return sum(letter.isalpha() for letter in text)


model = Counter()


async def think(state: MessagesState) -> dict[str, Any]:
    return {"messages": [await model.ainvoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("think", think)
graph.add_node("tools", ToolNode([count_letters]))
graph.add_edge(START, "think")
graph.add_conditional_edges("think", tools_condition)
graph.add_edge("tools", "think")

counter = chat(graph.compile(), name="counter", description="Counts letters.")
