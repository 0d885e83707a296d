"""What it costs to find the conversation in a value, over what it cost to parse the value: 10,000 mixed payloads.

`python -m benchmarks.parts.extraction` prints it by kind of payload, for whoever makes it faster.
"""

import gc
import time
import tracemalloc
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from random import Random
from typing import Any, Literal

import click
import msgspec

from benchmarks.context import BenchmarkContext
from benchmarks.figures import Figure, Goal, at_most
from benchmarks.payloads import COUNT, TEXT_KINDS, Payload, payloads, turns
from benchmarks.payloads.writers import WRITERS
from palaver.core.extraction import Prefer, extract_chat_messages, read_conversation

_LARGE_BYTES = 4 * 1024
"""Bytes over which a payload must keep the bound by itself; below, a call of anything costs as much as parsing."""
_REMEASURED_COUNT = 30
"""So many of the worst are measured again, with more rounds: a disturbance makes a suspect, not a culprit."""
Mode = Literal["strict", "extended"]


class ExtractionCost(msgspec.Struct):
    """The best times for one payload, in nanoseconds."""

    payload: Payload
    parse: int
    texts: int
    """To parse the JSON texts that it holds: the strict search leaves them alone, the extended one opens them."""
    strict: int
    extended: int

    def yardstick(self, mode: Mode) -> int:
        return self.parse + (self.texts if mode == "extended" else 0)

    def ratio(self, mode: Mode) -> float:
        return getattr(self, mode) / self.yardstick(mode)


def measure(stand: BenchmarkContext) -> Iterator[Figure]:
    count, rounds = stand.choose(full=COUNT, quick=COUNT // 20), stand.choose(full=7, quick=3)
    costs = measure_costs(payloads(count), rounds)
    size, parse = _totals(costs)
    of = f"{len(costs):,} payloads, {size:.0f} MB, best of {rounds} each; msgspec parses them in {parse:.0f} ms"
    yield _overall_figure(costs, "strict", at_most(0.6, must=1), of)
    bare = sum(cost.extended for cost in costs) / sum(cost.parse for cost in costs)
    how = f"every dialect, made messages of ours; JSON texts in payloads are parsed too on both sides, else {bare:.2f}"
    yield _overall_figure(costs, "extended", at_most(6), how)
    yield _worst_figure(costs, "strict", at_most(3), rounds)
    yield _worst_figure(costs, "extended", at_most(15), rounds)
    yield _memory_figure(stand.choose(full=1_000, quick=100))


def measure_costs(samples: Iterable[Payload], rounds: int, prefer: Prefer | None = None) -> list[ExtractionCost]:
    """The best of several rounds for each payload."""
    gc.collect()
    gc.disable()  # When it runs depends on what was made before; all three are measured without it.
    try:
        return [_measure_cost(payload, rounds, prefer) for payload in samples]
    finally:
        gc.enable()


def _measure_cost(payload: Payload, rounds: int, prefer: Prefer | None) -> ExtractionCost:
    parse: list[int] = []
    texts: list[int] = []
    strict: list[int] = []
    extended: list[int] = []
    inner = payload.texts if payload.kind.endswith(TEXT_KINDS) else []
    for _ in range(rounds):
        for search, times in ((extract_chat_messages, strict), (read_conversation, extended)):
            begun = time.perf_counter_ns()
            # Anew for every search: the strings of a value that was searched before know their hashes.
            value: Any = msgspec.json.decode(payload.data)
            parsed = time.perf_counter_ns()
            found = search(value, prefer)
            times.append(time.perf_counter_ns() - parsed)
            parse.append(parsed - begun)
            del found, value  # Outside of the times, for all alike.
        begun = time.perf_counter_ns()
        held = [msgspec.json.decode(text) for text in inner]
        texts.append(time.perf_counter_ns() - begun if held else 0)
        del held
    return ExtractionCost(payload, min(parse), min(texts), min(strict), min(extended))


def _totals(costs: Sequence[ExtractionCost]) -> tuple[float, float]:
    """Megabytes, and milliseconds of parsing."""
    return sum(len(cost.payload.data) for cost in costs) / 1e6, sum(cost.parse for cost in costs) / 1e6


def _ratio(costs: Sequence[ExtractionCost], mode: Mode) -> float:
    return sum(getattr(cost, mode) for cost in costs) / sum(cost.yardstick(mode) for cost in costs)


def _overall_figure(costs: Sequence[ExtractionCost], mode: Mode, goal: Goal, how: str) -> Figure:
    return Figure(name=f"extraction, {mode} / parsing", value=_ratio(costs, mode), unit="×", goal=goal, how=how)


def _worst_figure(costs: Sequence[ExtractionCost], mode: Mode, goal: Goal, rounds: int) -> Figure:
    large = [cost for cost in costs if len(cost.payload.data) > _LARGE_BYTES]
    suspects = sorted(large, key=lambda cost: cost.ratio(mode))[-_REMEASURED_COUNT:]
    again = measure_costs([cost.payload for cost in suspects], 5 * rounds)
    worst = max(again, key=lambda cost: cost.ratio(mode))
    size = len(worst.payload.data) / 1024
    return Figure(
        name=f"extraction, {mode}: worst payload",
        value=worst.ratio(mode),
        unit="×",
        goal=goal,
        how=f"of {len(large):,} over 4 KiB: {worst.payload.kind}, {size:.0f} KiB",
    )


def _memory_figure(messages: int) -> Figure:
    """The most that is taken while a long conversation is read, over what is kept of it; in the worst of dialects."""
    said = turns.random_conversation(Random(4), messages)
    ratios: dict[str, float] = {}
    strict = 0
    tracemalloc.start()
    try:
        for writer, dialect in WRITERS.items():
            value = {"messages": writer(said)}
            strict = max(strict, _search_memory(extract_chat_messages, value)[0])
            peak, kept = _search_memory(read_conversation, value)
            ratios[dialect] = max(ratios.get(dialect, 0), peak / kept)
    finally:
        tracemalloc.stop()
    worst = max(ratios, key=lambda dialect: ratios[dialect])
    return Figure(
        name="extraction, extended: memory / what is returned",
        value=ratios[worst],
        unit="×",
        goal=at_most(3),
        how=f"peak while {messages:,} messages are read, worst of all dialects: {worst}; strict takes {strict} bytes",
    )


def _search_memory(search: Callable[[Any], object], value: object) -> tuple[int, int]:
    """Bytes: the most while it searches, and what is left when it has found."""
    gc.collect()  # Or what was left by others may go meanwhile.
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    found = search(value)
    after, peak = tracemalloc.get_traced_memory()
    del found
    return peak - before, after - before


# By kind, for people


@click.command()
@click.option("--quick", "pace", flag_value="quick", default="full", help="A tenth of the payloads, fewer rounds.")
@click.option("--by", type=click.Choice(["kind", "dialect", "size"]), default="kind", help="What a line is.")
@click.option("--only", metavar="TEXT", default="", help="Kinds that contain this.")
@click.option("--prefer", type=click.Choice(["input", "output"]), help="Search as a column of this side does.")
def main(pace: Literal["full", "quick"], by: str, only: str, prefer: Prefer | None) -> None:
    """Print what each kind of payload costs, as multiples of parsing it: together, and the worst over 4 KiB."""
    count, rounds = (COUNT, 7) if pace == "full" else (COUNT // 10, 3)
    costs = measure_costs((payload for payload in payloads(count) if only in payload.kind), rounds, prefer)
    groups: defaultdict[str, list[ExtractionCost]] = defaultdict(list)
    for cost in costs:
        groups[_GROUPS[by](cost.payload)].append(cost)
    head = f"{'count':>7}{'MB':>8}{'parse ms':>10}{'strict':>8}{'worst':>8}{'extended':>10}{'worst':>8}"
    click.echo(f"{'':<34}{head}")
    for name, group in sorted(groups.items(), key=lambda item: _ratio(item[1], "extended")):
        click.echo(_line(name, group))
    click.echo(_line("all", costs))


_GROUPS: dict[str, Callable[[Payload], str]] = {
    "kind": lambda payload: payload.kind,
    "dialect": lambda payload: payload.dialect or "decoys",
    "size": lambda payload: f"under {4 ** ((len(payload.data).bit_length() + 1) // 2):>9,} bytes",
}


def _line(name: str, group: Sequence[ExtractionCost]) -> str:
    size, parse = _totals(group)
    large = [cost for cost in group if len(cost.payload.data) > _LARGE_BYTES]
    strict, extended = (max((cost.ratio(mode) for cost in large), default=0) for mode in ("strict", "extended"))
    ratios = f"{_ratio(group, 'strict'):>8.2f}{strict:>8.2f}{_ratio(group, 'extended'):>10.2f}{extended:>8.2f}"
    return f"{name:<34}{len(group):>7,}{size:>8.2f}{parse:>10.2f}{ratios}"


if __name__ == "__main__":
    main()
