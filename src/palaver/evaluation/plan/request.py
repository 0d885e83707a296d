"""The request that starts an evaluation: test set, variants, evaluators, column map and limits."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

NAME_PATTERN = r"^[^\x00]*$"
DisplayName = Annotated[str, Meta(min_length=1, max_length=200, pattern=NAME_PATTERN)]
OptionalName = Annotated[str, Meta(max_length=200, pattern=NAME_PATTERN)]
ColumnName = Annotated[str, Meta(max_length=1_000)]
MAX_VARIANTS, MAX_EVALUATORS, MAX_REPEATS = 100, 100, 100

FailedAs = Literal["not_passed", "exclude"]
"""How a failed cell counts: as not passed with score 0, or not at all."""


class WantedRows(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the revision: those that fit all that is said, and of them a sample, or the first."""

    filter: Annotated[str, Meta(max_length=10_000)] | dict[str, Any] | None = None
    """A row filter: `topic=maths`, or required values by column."""
    ids: Annotated[tuple[str, ...], Meta(max_length=100_000)] | None = None
    sample: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Number of rows, drawn at random, in the order of the set."""
    seed: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0
    """The same seed draws the same rows of the same revision."""
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Maximum number of rows, the first ones."""


class WantedTestset(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows are run over."""

    id: str
    revision: int | str = "head"
    """A number, a digest or its beginning, or `head`."""
    rows: WantedRows | None = None


class WantedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with parameters, or a column that holds answers already."""

    name: DisplayName | None = None
    """Its name in this evaluation; by default that of its variant, workflow or column."""
    workflow: str | None = None
    variant: str | None = None
    """`short` or `short:3`; `parameters` override its keys."""
    parameters: dict[str, Any] = {}
    column: ColumnName | None = None
    """Score the answers in this column instead of calling a workflow."""


class WantedEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator, by its key, with what it is to look for."""

    key: DisplayName
    name: DisplayName | None = None
    parameters: dict[str, Any] = {}


class WantedMap(msgspec.Struct, frozen=True, kw_only=True):
    """Which column goes where. What is not said is found out; null is for nothing."""

    messages: ColumnName | UnsetType | None = UNSET
    history: ColumnName | UnsetType | None = UNSET
    """Messages before `messages`."""
    script: ColumnName | UnsetType | None = UNSET
    expected: ColumnName | UnsetType | None = UNSET
    inputs: Annotated[dict[str, ColumnName], Meta(max_length=1_000)] | UnsetType | None = UNSET
    """Column by input name."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """At most so many calls in so many seconds, over all processes."""

    calls: Annotated[int, Meta(ge=1, le=1_000_000)]
    seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How fast it may go, and when it is enough."""

    concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 10
    """Concurrent calls of one workflow, over all processes."""
    rate: Rate | None = None
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """Seconds of one call, or of one turn of a script."""
    retries: Annotated[int, Meta(ge=0, le=20)] = 2
    """Retries of a transient failure."""
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    """When more is spent, the rest is cancelled and the evaluation fails."""
    max_errors: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """When a larger share of cells fails, the rest is cancelled and the evaluation fails."""


class NewEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluation as somebody wants it: a revision × variants × evaluators × repeats."""

    name: OptionalName = ""
    testset: WantedTestset
    variants: Annotated[tuple[WantedVariant, ...], Meta(min_length=1, max_length=MAX_VARIANTS)]
    evaluators: Annotated[tuple[WantedEvaluator, ...], Meta(min_length=1, max_length=MAX_EVALUATORS)]
    map: WantedMap = WantedMap()
    repeats: Annotated[int, Meta(ge=1, le=MAX_REPEATS)] = 1
    limits: Limits = Limits()
    failed_as: FailedAs = "not_passed"
