"""Plans: what an evaluation was asked for, and what it will do, fixed once and stored with it.

A request names things; a plan holds what they meant when the evaluation began: the revision, the rows, each variant's
parameters and flags, each evaluator's checked parameters, which column goes where. Who makes a plan of a request is
planning.py; who runs it, running.py.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from palaver.core.descriptions import IsChatSource
from palaver.errors import NotFound

NAMED = r"^[^\x00]*$"
Name = Annotated[str, Meta(min_length=1, max_length=200, pattern=NAMED)]
"""What a person calls something."""
Text = Annotated[str, Meta(max_length=200, pattern=NAMED)]
Column = Annotated[str, Meta(max_length=1_000)]
MOST_VARIANTS, MOST_EVALUATORS, MOST_REPEATS = 100, 100, 100

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

    name: Name | None = None
    """How it is called in this evaluation; otherwise by its variant, workflow or column."""
    workflow: str | None = None
    variant: str | None = None
    """`short` or `short:3`; `parameters` lie over what it sets, key by key."""
    parameters: dict[str, Any] = {}
    column: Column | None = None
    """Score the answers of this column instead of calling anything."""


class WantedEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """An evaluator, by its key, with what it is to look for."""

    key: Name
    name: Name | None = None
    parameters: dict[str, Any] = {}


class WantedMap(msgspec.Struct, frozen=True, kw_only=True):
    """Which column goes where. What is not said is found out; null is for nothing."""

    messages: Column | UnsetType | None = UNSET
    history: Column | UnsetType | None = UNSET
    """What was said before `messages`, where those are only the last thing said."""
    script: Column | UnsetType | None = UNSET
    expected: Column | UnsetType | None = UNSET
    inputs: Annotated[dict[str, Column], Meta(max_length=1_000)] | UnsetType | None = UNSET
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

    name: Text = ""
    testset: WantedTestset
    variants: Annotated[tuple[WantedVariant, ...], Meta(min_length=1, max_length=MOST_VARIANTS)]
    evaluators: Annotated[tuple[WantedEvaluator, ...], Meta(min_length=1, max_length=MOST_EVALUATORS)]
    map: WantedMap = WantedMap()
    repeats: Annotated[int, Meta(ge=1, le=MOST_REPEATS)] = 1
    limits: Limits = Limits()
    failed_as: FailedAs = "not_passed"


# What will be done


class ColumnMap(msgspec.Struct, frozen=True, kw_only=True):
    """Which column of a row goes where, for one variant. A row that has not got the column has nothing there."""

    messages: str | None = None
    history: str | None = None
    """What was said before those."""
    script: str | None = None
    spoken: str | None = None
    """What the user says in a row that has neither messages nor a script: a column of texts."""
    expected: str | None = None
    inputs: Mapping[str, str] = {}
    """By the input's name, its column."""


class PlannedVariant(msgspec.Struct, frozen=True, kw_only=True):
    """One variant, as it was when the evaluation began."""

    name: str
    workflow: str | None = None
    """None: `column` has the answers."""
    variant: str | None = None
    """The reference, fixed to a version: `short:3`."""
    parameters: Mapping[str, Any] = {}
    """What every call of it is given: the variant's and those over it."""
    column: str | None = None
    is_chat: bool = False
    is_chat_source: IsChatSource = "declared"
    map: ColumnMap = msgspec.field(default_factory=ColumnMap)


class PlannedEvaluator(msgspec.Struct, frozen=True, kw_only=True):
    """One evaluator, with parameters that it takes."""

    key: str
    name: str
    """Not twice in one evaluation; results and figures are told apart by it."""
    parameters: Mapping[str, Any] = {}


class PlannedTestset(msgspec.Struct, frozen=True, kw_only=True):
    """The revision, and how its rows were chosen."""

    id: str
    name: str
    revision: int
    digest: str = ""
    rows: WantedRows | None = None
    """None: all of them."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that a run of it needs, beside the rows, which are stored in a column of their own: 32 bytes for each."""

    name: str
    testset: PlannedTestset
    variants: Sequence[PlannedVariant]
    evaluators: Sequence[PlannedEvaluator]
    repeats: int = 1
    limits: Limits = Limits()
    failed_as: FailedAs = "not_passed"


ROW_BYTES = 32
"""Of a row in `Planned.rows`: its packed id, then the hash of its content."""


class Planned(msgspec.Struct, frozen=True):
    """A plan, and the rows it is for."""

    plan: Plan
    rows: bytes
    """For each row 16 bytes of its id and 16 of its hash, in the order of the set."""

    @property
    def total(self) -> int:
        """How many cells: rows × variants × repeats."""
        return len(self.rows) // ROW_BYTES * len(self.plan.variants) * self.plan.repeats


# Cells


class Place(msgspec.Struct, frozen=True):
    """Where a cell is: which row of the plan's rows, which of its variants, which repeat. All from 0."""

    row: int
    variant: int
    repeat: int


def place_of(plan: Plan, cell: int) -> Place:
    """The place of a cell by its number."""
    rest, repeat = divmod(cell, plan.repeats)
    row, variant = divmod(rest, len(plan.variants))
    return Place(row, variant, repeat)


def cell_at(plan: Plan, place: Place) -> int:
    """The number of the cell at a place."""
    return (place.row * len(plan.variants) + place.variant) * plan.repeats + place.repeat


def cell_id(cell: int) -> str:
    """A cell's number as others write it: `cell_42`. It is one of its evaluation, not of all."""
    return f"cell_{cell}"


def read_cell_id(text: str) -> int:
    """The number again; NotFound for what is none."""
    digits = text.removeprefix("cell_")
    if not digits.isascii() or not digits.isdecimal() or len(digits) > 9 or (digits != "0" and digits[0] == "0"):
        raise NotFound(f"There is no result {text[:80]!r}.")
    return int(digits)
