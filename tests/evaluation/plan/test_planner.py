"""A request for an evaluation becomes a plan, or an error that points to the invalid field."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import pytest

from palaver import Message, Parameter, chat, workflow
from palaver.core.json import decode_struct
from palaver.discovery.registry import Registry
from palaver.errors import ConflictingFields, InvalidParameter, InvalidValue, NotFound, RequestError
from palaver.evaluation.plan.plan import (
    CellPosition,
    ColumnMap,
    Plan,
    PlannedEvaluator,
    PlannedTestset,
    PlannedVariant,
    cell_number,
    cell_position,
    format_cell_id,
    parse_cell_id,
)
from palaver.evaluation.plan.planner import EvaluationPlanner
from palaver.evaluation.plan.request import Limits, NewEvaluation, RowSelection
from palaver.evaluation.plan.request import TestsetInput as InputTestset  # pytest collects names with `Test`.
from palaver.evaluation.plan.testset import RevisionSummary, select_rows
from palaver.storage.variants import ResolvedVariant
from palaver.testsets.rows import format_row_id, new_packed_id
from palaver.workflows.workflow import Workflow

COLUMN_KINDS = {"messages": "chat", "topic": "text", "old": "message", "expected": "text"}


@chat
def tutor(messages: list[Message], topic: str = "", style: Annotated[str, Parameter()] = "long") -> str:
    return f"{topic}{style}{len(messages)}"


@workflow
def upper(topic: str) -> str:
    return topic.upper()


def pack_rows(count: int) -> bytes:
    return b"".join(new_packed_id(1_000 + number, number) + bytes([number % 256]) * 16 for number in range(count))


ROWS = pack_rows(10)


def row_ids(rows: bytes) -> list[str]:
    return [format_row_id(rows[offset : offset + 16]) for offset in range(0, len(rows), 32)]


class FakeTestsets:
    """One set, with ten rows in its second revision."""

    async def revision(self, project: str, request: InputTestset) -> RevisionSummary:
        if (project, request.id) != ("default", "ts_1"):
            raise NotFound(f"There is no test set {request.id!r}.")
        return RevisionSummary(testset="ts_1", name="questions", number=2, digest="b2:00", kinds=COLUMN_KINDS)

    async def rows(self, project: str, revision: RevisionSummary, selection: RowSelection | None) -> bytes:
        return ROWS[:64] if selection is not None and selection.filter is not None else ROWS


class BoundEvaluator(msgspec.Struct, frozen=True):
    name: str


def bind(key: str, parameters: Mapping[str, Any], name: str | None) -> BoundEvaluator:
    if key not in ("exact_match", "regex"):
        raise InvalidValue(f"Unknown evaluator {key!r}.")
    if parameters.get("pattern") == "(":
        raise InvalidValue("This is no regular expression.", pointer="/parameters/pattern")
    return BoundEvaluator(name or key)


async def resolve(project: str, workflow: Workflow, reference: str) -> ResolvedVariant:
    if reference not in ("short", "short:3"):
        raise InvalidParameter(f"The workflow has no variant {reference!r}.")
    return ResolvedVariant("short:3", {"style": "short"})


def make_planner(**more: Any) -> EvaluationPlanner:
    registry = Registry([tutor, upper])
    return EvaluationPlanner(
        find_workflow=registry.workflow, testsets=FakeTestsets(), resolve_variant=resolve, bind_evaluator=bind, **more
    )


def evaluation_request(**more: Any) -> NewEvaluation:
    body = {"testset": {"id": "ts_1"}, "variants": [{"workflow": "tutor"}], "evaluators": [{"key": "exact_match"}]}
    return decode_struct(body | more, NewEvaluation)


async def test_a_request_becomes_a_plan() -> None:
    request = evaluation_request(
        name="prompt v3",
        variants=[
            {"name": "base", "workflow": "tutor"},
            {"workflow": "tutor", "variant": "short", "parameters": {"style": "brief"}},
            {"name": "shouting", "workflow": "upper"},
            {"column": "old"},
        ],
        evaluators=[{"key": "exact_match"}, {"key": "regex", "name": "starts", "parameters": {"pattern": "^A"}}],
        repeats=3,
        limits={"concurrency": 4, "max_cost": 5},
    )

    planned = await make_planner().plan("default", request)

    columns = ColumnMap(messages="messages", expected="expected", inputs={"topic": "topic"})
    assert planned.plan == Plan(
        name="prompt v3",
        testset=PlannedTestset(id="ts_1", name="questions", revision=2, digest="b2:00"),
        variants=[
            PlannedVariant(name="base", workflow="tutor", is_chat=True, map=columns),
            PlannedVariant(
                name="short:3",
                workflow="tutor",
                variant="short:3",
                parameters={"style": "brief"},
                is_chat=True,
                map=columns,
            ),
            PlannedVariant(
                name="shouting", workflow="upper", map=ColumnMap(expected="expected", inputs={"topic": "topic"})
            ),
            PlannedVariant(name="old", column="old", is_chat=True, is_chat_source="derived", map=columns),
        ],
        evaluators=[
            PlannedEvaluator(key="exact_match", name="exact_match"),
            PlannedEvaluator(key="regex", name="starts", parameters={"pattern": "^A"}),
        ],
        repeats=3,
        limits=Limits(concurrency=4, max_cost=5),
    )
    assert planned.rows == ROWS
    assert planned.total == 10 * 4 * 3


async def test_an_unnamed_evaluation_is_named_after_its_test_set_and_workflow() -> None:
    assert (await make_planner().plan("default", evaluation_request())).plan.name == "questions: tutor"


async def test_a_plan_is_unchanged_by_encoding_and_decoding() -> None:
    plan = (
        await make_planner().plan("default", evaluation_request(testset={"id": "ts_1", "rows": {"sample": 3}}))
    ).plan

    assert msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(plan), type=Plan)) == msgspec.json.encode(plan)


async def test_a_stored_plan_without_the_spoken_column_is_still_decoded() -> None:
    plan = (await make_planner().plan("default", evaluation_request())).plan
    stored = msgspec.to_builtins(plan)
    del stored["variants"][0]["map"]["spoken"]

    assert msgspec.convert(stored, Plan) == plan


INVALID_REQUESTS: list[tuple[dict[str, Any], type[RequestError], str, str]] = [
    (
        {"variants": [{"workflow": "gone"}]},
        InvalidValue,
        "/variants/0/workflow",
        "Workflow 'gone' not found. Available: tutor, up",
    ),
    ({"variants": [{}]}, InvalidValue, "/variants/0", "requires a workflow, or a column"),
    ({"variants": [{"column": "gone"}]}, InvalidValue, "/variants/0/column", "Column 'gone' not found"),
    (
        {"variants": [{"column": "old", "workflow": "tutor"}]},
        ConflictingFields,
        "/variants/0",
        "'column' can't be combined",
    ),
    ({"variants": [{"workflow": "tutor"}] * 2}, InvalidValue, "/variants/1/name", "Two variants have the name 'tutor'"),
    ({"variants": [{"workflow": "tutor", "variant": "x"}]}, InvalidParameter, "/variants/0/variant", "no variant 'x'"),
    (
        {"variants": [{"workflow": "tutor", "parameters": {"style": 1}}]},
        InvalidParameter,
        "/variants/0/parameters/style",
        "style",
    ),
    ({"evaluators": [{"key": "os:system"}]}, InvalidValue, "/evaluators/0/key", "Unknown evaluator 'os:system'"),
    (
        {"evaluators": [{"key": "exact_match"}, {"key": "regex", "parameters": {"pattern": "("}}]},
        InvalidValue,
        "/evaluators/1/parameters/pattern",
        "no regular expression",
    ),
    (
        {"evaluators": [{"key": "regex"}] * 2},
        InvalidValue,
        "/evaluators/1/name",
        "Two evaluators have the name 'regex'",
    ),
    (
        {"testset": {"id": "ts_1", "rows": {"ids": [row_ids(ROWS)[0], "row_x"]}}},
        InvalidValue,
        "/testset/rows/ids/1",
        "Row 'row_x' not found",
    ),
    ({"testset": {"id": "ts_1", "rows": {"ids": []}}}, InvalidValue, "/testset/rows", "No rows match"),
    ({"repeats": 3}, InvalidValue, "/testset/rows", "10 rows × 1 variants × 3 repeats = 30 cells, but the limit"),
    ({"map": {"messages": "gone"}}, InvalidValue, "/map/messages", "Column 'gone' not found"),
]


@pytest.mark.parametrize(("fields", "kind", "pointer", "why"), INVALID_REQUESTS)
async def test_invalid_requests_are_rejected_with_a_pointer(
    fields: dict[str, Any], kind: type[RequestError], pointer: str, why: str
) -> None:
    with pytest.raises(kind) as refused:
        await make_planner(max_cells=29).plan("default", evaluation_request(**fields))

    assert refused.value.pointer == pointer
    assert why in refused.value.message


async def test_a_test_set_of_another_project_is_not_found() -> None:
    with pytest.raises(NotFound):
        await make_planner().plan("other", evaluation_request())


@pytest.mark.parametrize(("wanted", "limit"), [(None, 2.0), (1.0, 1.0), (3.0, 2.0)])
async def test_max_cost_is_capped_by_the_settings(wanted: float | None, limit: float) -> None:
    planned = await make_planner(max_cost=2.0).plan("default", evaluation_request(limits={"max_cost": wanted}))

    assert planned.plan.limits == Limits(max_cost=limit)


# Rows


def test_rows_selected_by_id_are_in_test_set_order_without_duplicates() -> None:
    ids = row_ids(ROWS)

    assert row_ids(select_rows(ROWS, RowSelection(ids=(ids[7], ids[2], ids[7])))) == [ids[2], ids[7]]


def test_a_sample_is_deterministic_and_depends_on_the_seed() -> None:
    rows = pack_rows(200)
    sample = [row_ids(select_rows(rows, RowSelection(sample=20, seed=seed))) for seed in (7, 7, 8)]

    assert sample[0] == sample[1] != sample[2]
    assert len(sample[0]) == 20
    assert sample[0] == [name for name in row_ids(rows) if name in sample[0]]


def test_a_sample_keeps_most_of_its_rows_when_rows_are_added() -> None:
    before = row_ids(select_rows(pack_rows(200), RowSelection(sample=20)))
    after = row_ids(select_rows(pack_rows(220), RowSelection(sample=20)))

    assert len(set(before) & set(after)) >= 15


def test_a_sample_larger_than_the_test_set_is_all_rows() -> None:
    assert select_rows(ROWS, RowSelection(sample=11)) == ROWS


def test_a_limit_takes_the_first_rows() -> None:
    assert select_rows(ROWS, RowSelection(limit=3)) == ROWS[:96]


async def test_a_filter_selects_rows() -> None:
    planned = await make_planner().plan(
        "default", evaluation_request(testset={"id": "ts_1", "rows": {"filter": {"a": 1}}})
    )

    assert planned.rows == ROWS[:64]


# Cells


async def test_cells_are_numbered_by_row_then_variant_then_repeat() -> None:
    plan = (
        await make_planner().plan(
            "default", evaluation_request(variants=[{"workflow": "tutor"}, {"column": "old"}], repeats=3)
        )
    ).plan
    positions = [CellPosition(row, variant, repeat) for row in range(2) for variant in range(2) for repeat in range(3)]

    assert [cell_number(plan, position) for position in positions] == list(range(12))
    assert [cell_position(plan, cell) for cell in range(12)] == positions


@pytest.mark.parametrize("cell", [0, 1, 42, 999_999])
def test_a_formatted_cell_id_is_parsed_back(cell: int) -> None:
    assert parse_cell_id(format_cell_id(cell)) == cell


@pytest.mark.parametrize("text", ["", "cell_", "cell_-1", "cell_01", "cell_1x", "cell_9999999999", "cell_²", "row_1"])
def test_an_invalid_cell_id_is_not_found(text: str) -> None:
    with pytest.raises(NotFound):
        parse_cell_id(text)
