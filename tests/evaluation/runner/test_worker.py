"""The evaluation worker: every cell is called, scored and stored, within limits and budgets."""

import asyncio
from typing import Any

import msgspec
import pytest
from sqlalchemy import delete

from palaver import Context, Failure, Score, chat, evaluator, workflow
from palaver.core import steps
from palaver.core.messages import Usage
from palaver.core.steps import StepDetails
from palaver.errors import Overloaded
from palaver.evaluation.case import Case
from palaver.evaluation.plan.plan import ColumnMap, PlannedEvaluator
from palaver.evaluation.plan.request import Rate
from palaver.evaluation.runner import cell, result_writer
from palaver.server.settings import Settings
from palaver.storage import runs
from palaver.storage.database import Database
from palaver.storage.evaluations import results as evaluation_results
from palaver.storage.evaluations.results import ResultFilters
from palaver.storage.testsets.tables import testset_contents
from palaver.traces.prices import Price
from tests.evaluation.runner.local_server import (
    plan,
    read_result_detail,
    results,
    rows,
    running_server,
    store_evaluation,
    variant,
    wait_for_end,
)


@chat
async def answer(messages: Any) -> Any:
    yield messages[-1]["content"]


@workflow
async def double(number: int) -> int:
    return number * 2


async def test_every_cell_is_called_and_scored(database: Database) -> None:
    async with running_server(database, answer) as server:
        planned = plan(variant(), variant(name="again"), repeats=2)
        await database.write(store_evaluation, "ev_1", planned, [*rows(3), {"messages": "x"}])
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    result = await results(database)
    assert (finished.state, finished.total, finished.done, finished.failed, finished.errors) == (
        "succeeded",
        16,
        16,
        0,
        0,
    )
    assert [(one.cell, one.variant, one.repeat, one.status, one.finish, one.attempts) for one in result] == [
        (cell, cell // 2 % 2, cell % 2, "done", "stop", 1) for cell in range(16)
    ]
    assert [[(score.name, score.status, score.passed) for score in one.scores] for one in result] == [
        *[[("exact_match", "scored", True)]] * 12,
        *[[("exact_match", "skipped", None)]] * 4,
    ]
    assert len({one.row for one in result}) == 4


async def test_a_result_is_stored_with_its_content_and_its_run_without(database: Database) -> None:
    async with running_server(database, answer) as server:
        await database.write(
            store_evaluation, "ev_1", plan(), [{"messages": [{"role": "user", "content": "Hi"}], "expected": "Hi"}]
        )
        server.runtime.evaluation_worker.wake()
        await wait_for_end(database)
        await server.runtime.recorder.flush()
        result = await read_result_detail(database)
        assert result.result.run is not None
        run = await database.read(runs.get_stored_run, "default", result.result.run)

    assert result.body == {
        "inputs": {},
        "history": [{"role": "user", "parts": [{"type": "text", "text": "Hi"}]}],
        "messages": [
            {"id": result.body["messages"][0]["id"], "role": "assistant", "parts": [{"type": "text", "text": "Hi"}]}
        ],
        "text": "Hi",
        "notes": [],
        "tool_calls": [],
        "expected": "Hi",
    }
    assert result.result.latency is not None
    assert result.result.trace_id is not None
    assert (result.result.preview_in["text"], result.result.preview_out["text"]) == ("Hi", "Hi")
    assert run is not None
    assert (run.row.protocol, run.row.status, run.row.session, run.call, run.reply) == (
        "evaluation",
        "finished",
        "ev_1.cell_0",
        None,
        None,
    )


async def test_workflow_values_recorded_columns_and_invalid_rows(database: Database) -> None:
    inputs = ColumnMap(inputs={"number": "n"}, expected="expected")
    planned = plan(
        variant("double", is_chat=False, map=inputs),
        variant(None, name="recorded", column="old", is_chat=False, map=inputs),
    )
    data: list[dict[str, Any]] = [{"n": 2, "expected": 4, "old": 5}, {"n": "two", "expected": 4}]
    async with running_server(database, double) as server:
        await database.write(store_evaluation, "ev_1", planned, data)
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    result = await results(database)
    assert (finished.state, finished.done, finished.failed) == ("partly", 2, 2)
    assert [(one.status, None if one.error is None else one.error["code"], one.run is None) for one in result] == [
        ("done", None, False),
        ("done", None, True),
        ("failed", "invalid_input", True),
        ("failed", "no_answer", True),
    ]
    assert [[score.passed for score in one.scores] for one in result] == [[True], [False], [], []]
    assert (await read_result_detail(database, 0)).body["value"] == 4
    assert result[3].error == {"code": "no_answer", "message": "The row has no answer in column 'old'."}


async def test_a_row_without_messages_uses_its_question_and_an_empty_row_fails(database: Database) -> None:
    @chat
    async def heard(messages: Any, **inputs: Any) -> str:
        return f"{[message['content'] for message in messages]} {inputs}"

    columns = ColumnMap(messages="messages", script="script", spoken="question", inputs={"question": "question"})
    data: list[dict[str, Any]] = [
        {"question": "From the file?"},
        {"messages": None, "question": "Of a null?"},
        {"messages": [{"role": "user", "content": "Saved."}], "question": "An input."},
        {"script": {"turns": [{"user": "Played."}]}},
        {"messages": []},
        {"expected": "Nothing."},
        {"messages": None, "question": None, "script": None},
    ]
    planned = plan(variant("heard", map=columns), variant(name="nobody maps", workflow="heard", map=ColumnMap()))
    async with running_server(database, heard) as server:
        await database.write(store_evaluation, "ev_1", planned, data)
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    no_messages = {
        "code": "no_messages",
        "message": "The row has no input: no messages in column 'messages', "
        "no script in column 'script', no text in column 'question'. Fill in the column or leave out the row.",
    }
    mapped, unmapped = [[one for one in await results(database) if one.variant == index] for index in (0, 1)]
    assert (finished.state, finished.done, finished.failed) == ("partly", 12, 2)
    assert [one.error or one.preview_out["text"] for one in mapped] == [
        "['From the file?'] {}",
        "['Of a null?'] {}",
        "['Saved.'] {'question': 'An input.'}",
        "['Played.'] {}",
        "[] {}",
        no_messages,
        no_messages,
    ]
    assert [one.error or one.preview_out["text"] for one in unmapped] == ["[] {}"] * 7


async def test_cells_of_a_deleted_row_fail(database: Database) -> None:
    async with running_server(database, answer) as server:
        await database.write(store_evaluation, "ev_1", plan(), rows(1))
        await database.write(lambda db: db.execute(delete(testset_contents)))
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    [result] = await results(database)
    assert (finished.state, finished.reason) == (
        "failed",
        {"code": "no_cell_done", "message": "All cells failed. See the errors in the results."},
    )
    assert result.error is not None
    assert result.error["code"] == "row_gone"


async def test_a_script_is_played_in_the_session_of_its_cell(database: Database) -> None:
    sessions: list[tuple[str, str | None]] = []

    @chat
    async def weather(messages: Any, ctx: Context) -> Any:
        last = messages[-1]
        sessions.append((last["content"], ctx.session))
        if last["role"] == "tool":
            yield f"It is {last['content']}."
        elif "Oslo" in last["content"]:
            yield {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"city":"Oslo"}'}}
                ],
            }
        else:
            yield "Hello."

    script = {
        "turns": [{"user": "Hello"}, {"user": "Oslo?", "expect": {"text": "cold", "tools": [{"name": "look"}]}}],
        "tool_results": {"look": {"output": "cold"}},
    }
    scored = [PlannedEvaluator(key="turn_expectations", name="turns")]
    async with running_server(database, weather) as server:
        played = variant("weather", map=ColumnMap(script="script"))
        await database.write(store_evaluation, "ev_1", plan(played, evaluators=scored), [{"script": script}])
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    result = await read_result_detail(database)
    assert (finished.state, result.result.error) == ("succeeded", None)
    assert sessions == [(text, "ev_1.cell_0") for text in ("Hello", "Oslo?", "cold")]
    assert [turn["text"] for turn in result.body["turns"]] == ["Hello.", "It is cold."]
    assert result.body["tool_calls"][0]["result"] == "cold"
    assert [(score.name, score.passed) for score in result.result.scores] == [("turns", True)]


async def test_failing_and_unknown_evaluators_are_recorded_as_errors(database: Database) -> None:
    @evaluator(needs={"events"})
    def events(case: Case) -> bool:
        return case.events is not None and len(case.events) > 2

    @evaluator
    def broken(case: Case) -> bool:
        raise ValueError(case.text)

    planned = [PlannedEvaluator(key=key, name=key) for key in ("events", "broken", "gone")]
    async with running_server(database, answer, evaluators=[events, broken]) as server:
        await database.write(store_evaluation, "ev_1", plan(evaluators=planned), rows(1))
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    [result] = await results(database)
    assert (finished.state, finished.done, finished.errors) == ("partly", 1, 2)
    rendered = [(score.evaluator, score.name, score.status, score.passed, score.reason[:44]) for score in result.scores]
    assert rendered == [
        (0, "events", "scored", True, ""),
        (1, "broken", "error", None, "evaluator_failed: ValueError: Say 0"),
        (2, "gone", "error", None, "evaluator_unknown: Unknown evaluator 'gone'."),
    ]


async def test_cost_is_summed_and_ends_the_evaluation_at_max_cost(database: Database) -> None:
    @chat
    async def dear(messages: Any) -> Any:
        yield "Dear."
        yield Usage(input_tokens=10, output_tokens=5, cost=0.25)

    async with running_server(database, dear) as server:
        await database.write(store_evaluation, "ev_1", plan(variant("dear"), concurrency=1, max_cost=1.0), rows(200))
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    assert (finished.state, finished.reason is not None and finished.reason["code"]) == ("failed", "max_cost")
    assert finished.cost == finished.done * 0.25
    assert 4 <= finished.done < 200
    [first, *_] = await results(database)
    assert (first.cost, first.usage) == (0.25, Usage(input_tokens=10, output_tokens=5, cost=0.25))


async def test_a_chat_that_reports_only_tokens_is_priced_from_the_configured_prices(database: Database) -> None:
    @chat
    async def advisor(messages: Any) -> Any:
        listener = steps.current_listener()
        assert listener is not None
        step = listener.begin(("house",), "llm", "gpt")
        assert step is not None
        step.end(lambda: StepDetails(model="gpt-9", usage=Usage(500_000, 10)))
        yield messages[-1]["content"]
        yield Usage(500_000, 10)

    budget = PlannedEvaluator(key="cost_budget", name="cost", parameters={"max_cost": 2})
    settings = Settings(prices={"gpt-*": Price(input=6)})
    async with running_server(database, advisor, settings=settings) as server:
        await database.write(
            store_evaluation, "ev_1", plan(variant("advisor"), evaluators=[budget], max_cost=4), rows(1)
        )
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    (result,) = await results(database)
    assert (finished.state, result.cost, result.usage) == ("succeeded", 3.0, Usage(500_000, 10, cost=3.0))
    assert [(score.passed, score.score) for score in result.scores] == [(False, pytest.approx(2 / 3))]


async def test_too_many_failures_end_the_evaluation(database: Database) -> None:
    @chat
    async def failing(messages: Any) -> str:
        raise Failure("no", "No.", status=404)

    async with running_server(database, failing) as server:
        await database.write(
            store_evaluation, "ev_1", plan(variant("failing"), concurrency=2, max_errors=0.1), rows(100)
        )
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    assert (finished.state, finished.done, finished.reason is not None and finished.reason["code"]) == (
        "failed",
        0,
        "max_errors",
    )
    assert 10 < finished.failed < 100


async def test_calls_stay_within_the_concurrency_and_rate_limits(database: Database) -> None:
    concurrent, max_concurrent, started = 0, 0, 0.0

    @chat
    async def counted(messages: Any) -> str:
        nonlocal concurrent, max_concurrent
        concurrent += 1
        max_concurrent = max(max_concurrent, concurrent)
        await asyncio.sleep(0.01)
        concurrent -= 1
        return "Counted."

    async with running_server(database, counted) as server, running_server(database, counted) as second:
        limited = plan(variant("counted"), concurrency=3, rate=Rate(calls=100, seconds=1))
        await database.write(store_evaluation, "ev_1", limited, rows(30))
        started = asyncio.get_running_loop().time()
        server.runtime.evaluation_worker.wake()
        second.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)
        seconds = asyncio.get_running_loop().time() - started

    assert (finished.state, finished.done) == ("succeeded", 30)
    assert 1 <= max_concurrent <= 3
    assert seconds >= 0.25


async def test_a_process_runs_cells_on_at_most_half_of_its_threads(database: Database) -> None:
    concurrent, max_concurrent = 0, 0

    @chat
    async def counted(messages: Any) -> str:
        nonlocal concurrent, max_concurrent
        concurrent += 1
        max_concurrent = max(max_concurrent, concurrent)
        await asyncio.sleep(0.01)
        concurrent -= 1
        return "Counted."

    async with running_server(database, counted, settings=Settings(trace_content="off", threads=10)) as server:
        await database.write(store_evaluation, "ev_1", plan(variant("counted"), concurrency=100), rows(40))
        server.runtime.evaluation_worker.wake()
        await wait_for_end(database)

    assert max_concurrent == 5


async def test_a_server_without_background_runs_leaves_evaluations_to_workers(database: Database) -> None:
    async with running_server(database, answer, settings=Settings(trace_content="off", background_runs=0)) as server:
        await database.write(store_evaluation, "ev_1", plan(), rows(2))
        server.runtime.evaluation_worker.wake()
        async with running_server(database, answer) as worker:
            worker.runtime.evaluation_worker.wake()
            finished = await wait_for_end(database)

    assert (finished.state, server.runtime.evaluation_worker.running) == ("succeeded", 0)


async def test_redacted_content_is_scored_but_not_stored(database: Database) -> None:
    @evaluator
    def quoting(case: Case) -> Score:
        return Score(passed="ada@example.org" in case.text, reason=f"it says {case.text}", details={"said": case.text})

    data = [{"messages": "Write to ada@example.org", "expected": "Write to ada@example.org"}]
    scored = [PlannedEvaluator(key="quoting", name="quoting")]
    settings = Settings(trace_content="off", redact=({"detector": "email", "scope": ["runs"]},))
    async with running_server(database, answer, settings=settings, evaluators=[quoting]) as server:
        await database.write(store_evaluation, "ev_1", plan(evaluators=scored), data)
        server.runtime.evaluation_worker.wake()
        await wait_for_end(database)

    result = await read_result_detail(database)
    [score] = result.result.scores
    assert score.passed is True
    assert result.body["text"] == "Write to ‹redacted›"
    assert "example.org" not in msgspec.json.encode([result.body, result.result.preview_in, score.reason]).decode()
    assert "example.org" not in msgspec.json.encode([result.result.preview_out, score.details]).decode()
    search = ResultFilters(search="example.org")
    assert (await database.read(evaluation_results.list_results, "default", "ev_1", search)).data == []


async def test_results_are_stored_once_the_database_is_reachable_again(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures_left = 2
    record = evaluation_results.record_results

    def record_or_fail(*given: Any) -> Any:
        nonlocal failures_left
        if failures_left:
            failures_left -= 1
            raise Overloaded("The database cannot be reached.")
        return record(*given)

    monkeypatch.setattr(evaluation_results, "record_results", record_or_fail)
    monkeypatch.setattr(result_writer, "RETRY_INTERVAL_S", 0.01)
    async with running_server(database, answer) as server:
        await database.write(store_evaluation, "ev_1", plan(concurrency=1), rows(3))
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    assert (finished.state, finished.done, failures_left) == ("succeeded", 3, 0)


async def test_an_internal_error_fails_only_its_cell(
    database: Database, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    original = cell.read_cell_input

    def read_or_fail(row: dict[str, Any], planned: Any) -> Any:
        if row["messages"] == "Say 1":
            raise KeyError("a mistake")
        return original(row, planned)

    monkeypatch.setattr(cell, "read_cell_input", read_or_fail)
    async with running_server(database, answer) as server:
        await database.write(store_evaluation, "ev_1", plan(), rows(3))
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    result = await results(database)
    assert (finished.state, finished.done, finished.failed) == ("partly", 2, 1)
    assert result[1].error == {"code": "internal", "message": "Internal error. See the server log."}
    assert [record.message for record in caplog.records if record.name == "palaver.evaluation"] == [
        "Failed to run cell 1 of ev_1"
    ]


async def test_an_evaluator_that_exceeds_its_timeout_is_an_error(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    @evaluator
    async def endless(case: Case) -> bool:
        await asyncio.sleep(60)
        return True

    monkeypatch.setattr(cell, "SCORING_TIMEOUT_FACTOR", 0.01)
    scored = [PlannedEvaluator(key=key, name=key) for key in ("endless", "exact_match")]
    async with running_server(database, answer, evaluators=[endless]) as server:
        await database.write(store_evaluation, "ev_1", plan(evaluators=scored, timeout=5), rows(1))
        server.runtime.evaluation_worker.wake()
        finished = await wait_for_end(database)

    [result] = await results(database)
    assert (finished.state, finished.errors) == ("partly", 1)
    assert [(score.name, score.status, score.reason) for score in result.scores] == [
        ("endless", "error", "evaluator_timeout: timed out after 0.05 seconds"),
        ("exact_match", "scored", ""),
    ]
