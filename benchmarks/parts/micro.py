"""The event path by stage, in this process: the cost of a delta before it reaches the socket."""

from collections.abc import Callable, Iterator
from timeit import Timer

import msgspec

from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, at_most
from palaver.core.events import RunStarted, TextDelta
from palaver.core.grammar import Grammar
from palaver.protocols import sse
from palaver.protocols.agenta import response

_ITEM = "msg_01m7f9v7cxgf9qj54rvxz6dfgw_1"
_TOKEN = "token7 "


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    encode = msgspec.json.Encoder().encode
    grammar = Grammar("run_01m7f9v7cxgf9qj54rvxz6dfgw")
    frames = response.RecordEncoder(sse.data_event, is_chat=True).encode
    for event in (*grammar.start(RunStarted()), *grammar.text(_TOKEN)):
        frames(event)
    delta = grammar.text(_TOKEN)[0]

    encoding_ns = _nanoseconds(context, "encode(delta)", encode=encode, delta=delta)
    creation_ns = _nanoseconds(
        context, "encode(TextDelta(7, item, token))", encode=encode, TextDelta=TextDelta, item=_ITEM, token=_TOKEN
    )
    yield Figure(
        name="text delta: create and encode, relative to encoding",
        value=creation_ns / encoding_ns,
        unit="×",
        goal=at_most(2),
        how=f"creating a TextDelta and encoding it with msgspec takes {creation_ns:.0f} ns, encoding an existing one "
        f"{encoding_ns:.0f} ns",
    )
    yield Figure(
        name="text delta: grammar",
        value=_nanoseconds(context, "text(token)", fresh=_fresh_text, token=_TOKEN),
        unit="ns",
        how="one call of `Grammar.text`, with a token of an open item",
    )
    yield Figure(
        name="text delta: frame of /invoke",
        value=_nanoseconds(context, "frames(delta)", frames=frames, delta=delta),
        unit="ns",
        how="encoding as a server-sent event; all times in this section are the best of several runs, "
        "less those of an empty loop",
    )


def _fresh_text() -> Callable[[str], object]:
    grammar = Grammar("run_01m7f9v7cxgf9qj54rvxz6dfgw")
    grammar.start(RunStarted())
    grammar.text(_TOKEN)
    return grammar.text


def _nanoseconds(context: BenchmarkContext, statement: str, **names: object) -> float:
    """Return the best of several repeats: disturbances only make a repeat slower."""
    number, repeats = context.choose(full=100_000, quick=20_000), context.choose(full=9, quick=3)
    # A grammar collects its events; each repeat gets a new one, or its lists would grow.
    timer = Timer(statement, "text = fresh()" if "fresh" in names else "pass", globals=names)
    empty_loop = Timer("pass")
    best, empty = (min(candidate.repeat(repeats, number)) for candidate in (timer, empty_loop))
    return (best - empty) / number * 1e9
