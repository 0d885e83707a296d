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


class RowSelection(msgspec.Struct, frozen=True, kw_only=True):
    """Selects the rows that match all conditions; `sample` and `limit` reduce their number."""

    filter: Annotated[str, Meta(max_length=10_000)] | dict[str, Any] | None = None
    """A row filter: `topic=maths`, or required values by column."""
    ids: Annotated[tuple[str, ...], Meta(max_length=100_000)] | None = None
    """Ids of the rows."""
    sample: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Number of rows to draw at random. They keep the order of the test set."""
    seed: Annotated[int, Meta(ge=0, lt=1 << 53)] = 0
    """The same seed draws the same rows of the same revision."""
    limit: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """Use only the first N rows."""


class TestsetInput(msgspec.Struct, frozen=True, kw_only=True):
    """The test set to evaluate: revision and rows."""

    id: str
    """Id of the test set."""
    revision: int | str = "head"
    """A revision number, a digest or digest prefix, or `head`."""
    rows: RowSelection | None = None
    """Which rows to run; by default all."""


class VariantInput(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow with parameters, or a column with existing answers."""

    name: DisplayName | None = None
    """Name in this evaluation (default: the name of the variant, workflow or column)."""
    workflow: str | None = None
    """Name of the workflow."""
    variant: str | None = None
    """Stored variant, such as `short` or `short:3`. `parameters` override it key by key."""
    parameters: dict[str, Any] = {}
    """Parameters of the workflow; they override those of the stored variant."""
    column: ColumnName | None = None
    """Score the answers in this column instead of calling a workflow."""


class EvaluatorInput(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator and its parameters."""

    key: DisplayName
    """Key of the evaluator."""
    name: DisplayName | None = None
    """Name of the scores (default: the key)."""
    parameters: dict[str, Any] = {}
    """Parameters of the evaluator."""


class ColumnMapInput(msgspec.Struct, frozen=True, kw_only=True):
    """The columns for messages, expected answer and inputs. Omitted fields are detected; null means no column."""

    messages: ColumnName | UnsetType | None = UNSET
    """Column with the user's messages or question."""
    history: ColumnName | UnsetType | None = UNSET
    """Column with the messages before `messages`."""
    script: ColumnName | UnsetType | None = UNSET
    """Column with scripts, which are played turn by turn."""
    expected: ColumnName | UnsetType | None = UNSET
    """Column with the expected answer."""
    inputs: Annotated[dict[str, ColumnName], Meta(max_length=1_000)] | UnsetType | None = UNSET
    """Column by input name."""


class Rate(msgspec.Struct, frozen=True, kw_only=True):
    """Maximum number of calls in a period, across all processes."""

    calls: Annotated[int, Meta(ge=1, le=1_000_000)]
    """Maximum number of calls."""
    seconds: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """Length of the period, in seconds."""


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on speed, cost and errors."""

    concurrency: Annotated[int, Meta(ge=1, le=1_000)] = 10
    """Maximum number of concurrent calls of one workflow, across all processes."""
    rate: Rate | None = None
    """Maximum rate of calls; by default unlimited."""
    timeout: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    """Timeout of a call, or of each turn of a script, in seconds."""
    retries: Annotated[int, Meta(ge=0, le=20)] = 2
    """Maximum number of retries after a transient failure."""
    max_cost: Annotated[float, Meta(gt=0)] | None = None
    """Maximum cost in US dollars. Beyond it, the remaining cells are cancelled and the evaluation fails."""
    max_errors: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """Maximum share of failed cells. Beyond it, the remaining cells are cancelled and the evaluation fails."""


class NewEvaluation(msgspec.Struct, frozen=True, kw_only=True):
    """A new evaluation: test set revision × variants × evaluators × repeats."""

    name: OptionalName = ""
    testset: TestsetInput
    variants: Annotated[tuple[VariantInput, ...], Meta(min_length=1, max_length=MAX_VARIANTS)]
    """The variants to evaluate. The first one is the base of comparisons."""
    evaluators: Annotated[tuple[EvaluatorInput, ...], Meta(min_length=1, max_length=MAX_EVALUATORS)]
    """The evaluators that score the answers."""
    map: ColumnMapInput = ColumnMapInput()
    repeats: Annotated[int, Meta(ge=1, le=MAX_REPEATS)] = 1
    """Number of runs per row."""
    limits: Limits = Limits()
    failed_as: FailedAs = "not_passed"
    """Whether failed calls count as not passed, or are left out of the statistics."""
