"""The cost of finding the conversation in a value, relative to parsing the value, for 10,000 mixed payloads.

`python -m benchmarks.parts.extraction` prints it by kind of payload.
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
"""Larger payloads must meet the bound individually; for smaller ones the overhead of a call dominates."""
_REMEASURED_COUNT = 30
"""Number of the worst payloads that are measured again with more rounds, to rule out disturbances."""
Mode = Literal["strict", "extended"]


class ExtractionCost(msgspec.Struct):
    """The best times for one payload, in nanoseconds."""

    payload: Payload
    parse: int
    texts: int
    """Parsing the JSON texts in the payload, which only the extended search does."""
    strict: int
    extended: int

    def baseline(self, mode: Mode) -> int:
        return self.parse + (self.texts if mode == "extended" else 0)

    def ratio(self, mode: Mode) -> float:
        return getattr(self, mode) / self.baseline(mode)


def measure(context: BenchmarkContext) -> Iterator[Figure]:
    count, rounds = context.choose(full=COUNT, quick=COUNT // 20), context.choose(full=7, quick=3)
    costs = measure_costs(payloads(count), rounds)
    size, parse = _totals(costs)
    how = f"{len(costs):,} payloads, {size:.0f} MB, best of {rounds} rounds each; msgspec parses them in {parse:.0f} ms"
    yield _overall_figure(costs, "strict", at_most(0.6, must=1), how)
    ratio_without_texts = sum(cost.extended for cost in costs) / sum(cost.parse for cost in costs)
    how = (
        "the same payloads, converted to Palaver messages; both times include parsing the JSON strings in payloads "
        f"({ratio_without_texts:.2f} × if only the time of the search does)"
    )
    yield _overall_figure(costs, "extended", at_most(6), how)
    yield _worst_figure(costs, "strict", at_most(3), rounds)
    yield _worst_figure(costs, "extended", at_most(15), rounds)
    yield _memory_figure(context.choose(full=1_000, quick=100))


def measure_costs(samples: Iterable[Payload], rounds: int, prefer: Prefer | None = None) -> list[ExtractionCost]:
    """Measure each payload in several rounds and keep the best times."""
    gc.collect()
    gc.disable()  # Its runs depend on earlier allocations.
    try:
        return [_measure_cost(payload, rounds, prefer) for payload in samples]
    finally:
        gc.enable()


def _measure_cost(payload: Payload, rounds: int, prefer: Prefer | None) -> ExtractionCost:
    parse: list[int] = []
    texts: list[int] = []
    strict: list[int] = []
    extended: list[int] = []
    json_texts = payload.texts if payload.kind.endswith(TEXT_KINDS) else []
    for _ in range(rounds):
        for search, times in ((extract_chat_messages, strict), (read_conversation, extended)):
            started = time.perf_counter_ns()
            # Parsed again for every search: strings of a searched value have cached hashes.
            value: Any = msgspec.json.decode(payload.data)
            parsed = time.perf_counter_ns()
            result = search(value, prefer)
            times.append(time.perf_counter_ns() - parsed)
            parse.append(parsed - started)
            del result, value  # Outside of the measured times.
        started = time.perf_counter_ns()
        parsed_texts = [msgspec.json.decode(text) for text in json_texts]
        texts.append(time.perf_counter_ns() - started if parsed_texts else 0)
        del parsed_texts
    return ExtractionCost(payload, min(parse), min(texts), min(strict), min(extended))


def _totals(costs: Sequence[ExtractionCost]) -> tuple[float, float]:
    """Return the megabytes, and the milliseconds of parsing."""
    return sum(len(cost.payload.data) for cost in costs) / 1e6, sum(cost.parse for cost in costs) / 1e6


def _ratio(costs: Sequence[ExtractionCost], mode: Mode) -> float:
    return sum(getattr(cost, mode) for cost in costs) / sum(cost.baseline(mode) for cost in costs)


def _overall_figure(costs: Sequence[ExtractionCost], mode: Mode, goal: Goal, how: str) -> Figure:
    return Figure(name=f"{mode} search relative to parsing", value=_ratio(costs, mode), unit="×", goal=goal, how=how)


def _worst_figure(costs: Sequence[ExtractionCost], mode: Mode, goal: Goal, rounds: int) -> Figure:
    large = [cost for cost in costs if len(cost.payload.data) > _LARGE_BYTES]
    suspects = sorted(large, key=lambda cost: cost.ratio(mode))[-_REMEASURED_COUNT:]
    remeasured = measure_costs([cost.payload for cost in suspects], 5 * rounds)
    worst = max(remeasured, key=lambda cost: cost.ratio(mode))
    size = len(worst.payload.data) / 1024
    return Figure(
        name=f"{mode} search relative to parsing: worst payload",
        value=worst.ratio(mode),
        unit="×",
        goal=goal,
        how=f"of {len(large):,} payloads over 4 KiB: one of {size:.0f} KiB, generated by "
        f"`{worst.payload.kind.replace(' ', '` and `')}` in benchmarks/payloads",
    )


def _memory_figure(messages: int) -> Figure:
    """Peak memory while a long conversation is read, relative to the result, in the worst dialect."""
    conversation = turns.random_conversation(Random(4), messages)
    ratios: dict[str, float] = {}
    strict = 0
    tracemalloc.start()
    try:
        for writer, dialect in WRITERS.items():
            value = {"messages": writer(conversation)}
            strict = max(strict, _search_memory(extract_chat_messages, value)[0])
            peak, retained = _search_memory(read_conversation, value)
            ratios[dialect] = max(ratios.get(dialect, 0), peak / retained)
    finally:
        tracemalloc.stop()
    worst = max(ratios, key=lambda dialect: ratios[dialect])
    return Figure(
        name="extended search: peak memory relative to the result",
        value=ratios[worst],
        unit="×",
        goal=at_most(3),
        how=f"reading {messages:,} messages; worst dialect: {worst}; the strict search uses {strict} bytes",
    )


def _search_memory(search: Callable[[Any], object], value: object) -> tuple[int, int]:
    """Return the peak bytes during the search, and the bytes of its result."""
    gc.collect()  # So that no earlier garbage is freed meanwhile.
    before, _ = tracemalloc.get_traced_memory()
    tracemalloc.reset_peak()
    result = search(value)
    after, peak = tracemalloc.get_traced_memory()
    del result
    return peak - before, after - before


# By kind, on the command line


@click.command()
@click.option(
    "--quick", "pace", flag_value="quick", default="full", help="Use a tenth of the payloads and fewer rounds."
)
@click.option("--by", type=click.Choice(["kind", "dialect", "size"]), default="kind", help="Group the lines by this.")
@click.option("--only", metavar="TEXT", default="", help="Only kinds that contain TEXT.")
@click.option(
    "--prefer", type=click.Choice(["input", "output"]), help="Prefer this side, as the columns of the page do."
)
def main(pace: Literal["full", "quick"], by: str, only: str, prefer: Prefer | None) -> None:
    """Print the cost of each kind of payload as a multiple of parsing it: in total, and the worst over 4 KiB."""
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
