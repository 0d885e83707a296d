"""A runnable as a workflow: what it takes by name, and the function that answers with it.

A graph takes the keys of its state, a chain that begins with a prompt the variables of it, a chat model the messages.
"""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, Any, NamedTuple, cast, get_origin

from msgspec import UNSET

from palaver.core.messages import Message
from palaver.errors import ChatWithoutMessages
from palaver.frameworks.langchain_content import plain
from palaver.frameworks.langchain_graph import RESUME, run
from palaver.frameworks.langchain_messages import written
from palaver.workflows.annotations import strip_annotation
from palaver.workflows.config_models import ConfigModel, is_config_model
from palaver.workflows.context import Context

if TYPE_CHECKING:
    from langchain_core.runnables import Runnable


class _Taken(NamedTuple):
    """One argument of the function that we make."""

    annotation: Any
    required: bool = False


_MESSAGES = {"messages": _Taken(list[Message], required=True)}
_CONTEXT = {"ctx": _Taken(Context, required=True)}


def chatting(runnable: "Runnable[Any, Any]", name: str) -> Callable[..., Any]:
    """The function that answers a history with the runnable."""
    if is_graph(runnable):
        return _graph_chatting(runnable, name)
    variables = _variables(runnable)
    if variables is not None and "messages" not in variables:
        raise ChatWithoutMessages(
            f"{name} is declared as a chat but its prompt has no place for the history: give it a placeholder named "
            "messages, or declare it with workflow(…)."
        )

    async def answer(messages: list[Message], **given: Any) -> AsyncGenerator[object, None]:
        history = written(messages)
        async with aclosing(
            _streamed(runnable, history if variables is None else {**given, "messages": history})
        ) as said:
            async for chunk in said:
                yield chunk

    return _taking(answer, {**(variables or {}), **_MESSAGES})


def _graph_chatting(graph: Any, name: str) -> Callable[..., Any]:
    keys = _keys(graph)
    takes_list = keys is None and _starts_with_list(graph)
    if keys is not None and "messages" not in keys:
        raise ChatWithoutMessages(
            f"{name} is declared as a chat but its state has no messages: add them, or declare it with workflow(…)."
        )
    # A key of the state's own goes before.
    resume = {RESUME: _Taken(Any)} if graph.checkpointer and RESUME not in (keys or {}) else {}

    async def answer(messages: list[Message], ctx: Context, **given: Any) -> AsyncGenerator[object, None]:
        resumed = given.pop(RESUME, UNSET) if resume else UNSET
        async with aclosing(run(graph, messages, given, ctx, resume=resumed, takes_list=takes_list)) as said:
            async for each in said:
                yield each

    return _taking(answer, {**resume, **(keys or {}), **_MESSAGES, **_CONTEXT})


def working(runnable: "Runnable[Any, Any]") -> Callable[..., Any]:
    """The function that hands its inputs to the runnable: by name where it knows names, else the one called `input`."""
    named = _keys(runnable) if is_graph(runnable) else _variables(runnable)

    def value_of(given: dict[str, Any]) -> Any:
        return given["input"] if named is None else given

    async def stream(**given: Any) -> AsyncGenerator[object, None]:
        async with aclosing(_streamed(runnable, value_of(given))) as said:
            async for chunk in said:
                yield chunk

    async def call(ctx: Context, **given: Any) -> Any:
        config: Any = {"configurable": {"thread_id": ctx.session}}
        return plain(await runnable.ainvoke(value_of(given), config))

    taken = {"input": _Taken(Any, required=True)} if named is None else named
    return _taking(stream, taken) if _gives_text(runnable) else _taking(call, {**taken, **_CONTEXT})


def is_graph(runnable: object) -> bool:
    """Is it a LangGraph graph? Without LangGraph nothing is."""
    return any(
        base.__name__ == "Pregel" and base.__module__.startswith("langgraph.") for base in type(runnable).__mro__
    )


# What a runnable takes and gives


def _streamed(runnable: "Runnable[Any, Any]", value: Any) -> AsyncGenerator[object, None]:
    return cast("AsyncGenerator[object, None]", runnable.astream(value))


def _keys(graph: Any) -> dict[str, _Taken] | None:
    """The keys of a graph's state that it may be given; None where it takes one value without a name."""
    schema = getattr(getattr(graph, "builder", None), "input_schema", None)
    if not is_config_model(schema):
        return None
    # Reducers, which stand beside the type, are no matter of the caller's.
    fields = [field for field in ConfigModel(schema).fields if field.attribute not in graph.builder.managed]
    return {field.attribute: _Taken(strip_annotation(field.annotation)) for field in fields}


def _starts_with_list(graph: Any) -> bool:
    start = strip_annotation(getattr(graph.channels.get("__start__"), "typ", Any))
    kind = get_origin(start) or start
    return isinstance(kind, type) and issubclass(kind, Sequence)


def _variables(runnable: Any) -> dict[str, _Taken] | None:
    """The variables of the prompt that a chain begins with; None where it begins with anything else."""
    from langchain_core.prompts import BasePromptTemplate

    first = _followed(runnable, "first")
    if not isinstance(first, BasePromptTemplate):
        return None
    prompt = cast("BasePromptTemplate[Any]", first)
    return {name: _Taken(Any) for name in prompt.optional_variables} | {
        name: _Taken(Any if name in prompt.input_types else str, required=True) for name in prompt.input_variables
    }


def _gives_text(runnable: Any) -> bool:
    """Does it stream text, or messages of a model?"""
    from langchain_core.language_models import BaseLanguageModel
    from langchain_core.output_parsers import StrOutputParser

    return isinstance(_followed(runnable, "last"), BaseLanguageModel | StrOutputParser)


def _followed(runnable: Any, end: str) -> Any:
    """The first or last step of a chain, whatever is wrapped around it."""
    while (further := getattr(runnable, end, None) or getattr(runnable, "bound", None)) is not None:
        runnable = further
    return runnable


def _taking(function: Callable[..., Any], taken: Mapping[str, _Taken]) -> Callable[..., Any]:
    """The function, with a signature that says by name what it takes."""
    declared: Any = function
    declared.__annotations__ = {name: argument.annotation for name, argument in taken.items()}
    declared.__signature__ = Signature(
        [
            Parameter(name, Parameter.KEYWORD_ONLY, default=Parameter.empty if argument.required else None)
            for name, argument in taken.items()
        ]
    )
    return function
