"""What an evaluation request asks for."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

NAME_PATTERN = r"^[^\x00]*$"
DisplayName = Annotated[str, Meta(min_length=1, max_length=200, pattern=NAME_PATTERN)]
"""What a person calls something."""
OptionalName = Annotated[str, Meta(max_length=200, pattern=NAME_PATTERN)]
ColumnName = Annotated[str, Meta(max_length=1_000)]
MAX_VARIANTS, MAX_EVALUATORS, MAX_REPEATS = 100, 100, 100

FailedAs = Literal["not_passed", "exclude"]
"""What a failed cell is in all figures: not passed with score 0, or left out."""


# What is asked for


class WantedRows(msgspec.Struct, frozen=True, kw_only=True):
    """Some rows of the revision: those that fit all that is said, and of them a sample, or the first."""

    filter: Annotated[str, Meta(max_length=10_000)] | dict[str, Any] | None = None
    """As the rows of a test set are filtered: `topic=maths`, or columns and the values that they must have."""
    ids: Annotated[tuple[str, ...], Meta(max_length=100_000)] | None = None
    sample: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """How many, drawn at random, in the order of the set."""
    seed: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0
    """The same seed draws the same rows of the same revision."""
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """At most so many, the first ones."""


class WantedTestset(msgspec.Struct, frozen=True, kw_only=True):
    """Which rows are run over."""

    id: str
    revision: int | str = "head"
    """A number, a digest or the beginning of one, or `head`."""
    rows: WantedRows | None = None


class WantedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with parameters, or a column that holds answers already."""

    name: DisplayName | None = None
    """How it is called in this evaluation; otherwise by its variant, workflow or column."""
    workflow: str | None = None
    variant: str | None = None
    """`short` or `short:3`; `parameters` lie over what it sets, key by key."""
    parameters: dict[str, Any] = {}
    column: ColumnName | None = None
    """Score the answers of this column instead of calling anything."""


class WantedEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator, by its key, with what it is to look for."""

    key: DisplayName
    name: DisplayName | None = None
    parameters: dict[str, Any] = {}


class WantedMap(msgspec.Struct, frozen=True, kw_only=True):
    """Which column goes where. What is not said is found out; null is for nothing."""

    messages: ColumnName | UnsetType | None = UNSET
    history: ColumnName | UnsetType | None = UNSET
    """What was said before `messages`, where those are only the last thing said."""
    script: ColumnName | UnsetType | None = UNSET
    expected: ColumnName | UnsetType | None = UNSET
    inputs: Annotated[dict[str, ColumnName], Meta(max_length=1_000)] | UnsetType | None = UNSET
    """By the input's name, its column."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """At most so many calls in so many seconds, over all processes."""

    calls: Annotated[int, Meta(ge=1, le=1_000_000)]
    seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """How fast it may go, and when it is enough."""

    concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 10
    """Calls at once of one workflow, over all processes."""
    rate: Rate | None = None
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """Seconds of one call, or of one turn of a script."""
    retries: Annotated[int, Meta(ge=0, le=20)] = 2
    """How often a call is tried again that failed for a moment."""
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    """What may be spent; once it is, the rest is cancelled and the evaluation has failed."""
    max_errors: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """The share of all cells that may fail; beyond it the rest is cancelled and the evaluation has failed."""


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
