"""`@evaluator`: declaring, binding and calling a function that scores a case."""

import asyncio
import contextvars
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import UNSET, Meta, UnsetType

from palaver import Case, Score, evaluator
from palaver.errors import DeclarationError, InvalidValue
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.score import ScoringError, Skip
from palaver.evaluation.target import Target
from tests.evaluation.evaluator_helpers import answer, score_case, score_records

CASE = answer("please do", expected="x")
COMMON_PROPERTIES = {
    "threshold": {
        "description": "Minimum score to pass.",
        "anyOf": [{"type": "number"}, {"type": "null"}],
        "default": None,
    },
    "name": {
        "description": "Name of the scores (default: the evaluator's key).",
        "anyOf": [{"type": "string", "minLength": 1, "maxLength": 200}, {"type": "null"}],
        "default": None,
    },
}


@evaluator(threshold=0.7)
async def polite(case: Case, words: list[str] = ["please"]) -> float:  # noqa: B006 - as an author writes it
    """How polite it is.

    More of it.
    """
    return sum(term in case.text for term in words) / len(words)


class Extra(msgspec.Struct):
    x: int = 1


@evaluator(key="team.form", title="A form", needs={"expected", "tools"})
def form(
    case: Case,
    must: Annotated[int, Meta(ge=1, description="So many.")],
    *,
    word: Literal["a", "b"] = "a",
    maybe: Any | UnsetType = UNSET,
    extra: Extra | None = None,
    pass_: bool = False,
    anything=None,
) -> dict[str, Any]:
    return {
        "must": must,
        "word": word,
        "maybe": maybe is UNSET,
        "pass": pass_,
        "thing": anything,
        "x": extra and extra.x,
    }


def test_a_decorated_function_is_an_evaluator_and_stays_callable() -> None:
    assert (polite.key, polite.title, polite.description) == ("polite", "Polite", "How polite it is.")
    assert polite.needs == frozenset()
    assert polite.place.startswith("tests/evaluation/test_evaluator.py:")
    assert repr(polite) == "<evaluator polite>"
    assert (form.key, form.title, form.needs) == ("team.form", "A form", {"expected", "tools"})
    assert form(CASE, 2)["must"] == 2


def test_parameters_become_a_json_schema() -> None:
    assert polite.schema == {
        "type": "object",
        "properties": {
            "words": {"type": "array", "items": {"type": "string"}, "default": ["please"]},
            **COMMON_PROPERTIES,
            "threshold": {**COMMON_PROPERTIES["threshold"], "default": 0.7},
        },
        "additionalProperties": False,
    }
    assert form.schema == {
        "type": "object",
        "properties": {
            "must": {"description": "So many.", "type": "integer", "minimum": 1},
            "word": {"enum": ["a", "b"], "default": "a"},
            "maybe": {},
            "extra": {"anyOf": [{"$ref": "#/$defs/Extra"}, {"type": "null"}], "default": None},
            "pass": {"type": "boolean", "default": False},
            "anything": {"default": None},
            **COMMON_PROPERTIES,
        },
        "additionalProperties": False,
        "required": ["must"],
        "$defs": {
            "Extra": {
                "title": "Extra",
                "type": "object",
                "properties": {"x": {"type": "integer", "default": 1}},
                "required": [],
            }
        },
    }


async def test_parameters_are_passed_to_the_function() -> None:
    (one, *_) = await score_records(
        form, CASE, must=3, word="b", maybe=None, extra={"x": 5}, anything=[1], **{"pass": True}
    )

    assert one.details == {"must": 3, "word": "b", "maybe": False, "pass": True, "thing": [1], "x": 5}


@pytest.mark.parametrize(
    ("parameters", "message", "pointer"),
    [
        ({}, "missing required parameter 'must'.", "/parameters/must"),
        ({"must": "x"}, "must must be an integer, not a string.", "/parameters/must"),
        ({"must": True}, "must must be an integer, not a boolean.", "/parameters/must"),
        ({"must": 0}, "must must be at least 1.", "/parameters/must"),
        ({"must": 1, "word": "c"}, "word has an invalid value: 'c'.", "/parameters/word"),
        ({"must": 1, "extra": {"x": "y"}}, "extra/x must be an integer, not a string.", "/parameters/extra/x"),
        (
            {"must": 1, "a/b": 2},
            "unknown parameter 'a/b'. Available: must, word, maybe, extra, pass, anything, threshold, name.",
            "/parameters/a~1b",
        ),
        (
            {"must": 1, "threshold": "high"},
            "threshold must be a number or null, not a string.",
            "/parameters/threshold",
        ),
        ({"must": 1, "threshold": True}, "threshold must be a number or null, not a boolean.", "/parameters/threshold"),
    ],
)
def test_invalid_parameters_are_rejected_when_binding(parameters: dict[str, Any], message: str, pointer: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        form.bind(parameters, OfflineContext())

    assert (refused.value.message, refused.value.pointer) == (f"Evaluator 'team.form': {message}", pointer)


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda: evaluator(int), "<class 'int'> is not an evaluator. Declare a function"),
        (lambda: evaluator(5), "5 is not an evaluator. Declare a function"),  # pyright: ignore[reportArgumentType]
        (lambda: evaluator(lambda: True), "Invalid evaluator key '<lambda>'"),
        (lambda: evaluator(key="nobody")(lambda: True), "Evaluator 'nobody': missing the first parameter, 'case'"),
        (lambda: evaluator(key="kw")(lambda *, case: True), "Evaluator 'kw': missing the first parameter, 'case'"),
        (lambda: evaluator(key="a b")(lambda case: True), "Invalid evaluator key 'a b'"),
        (lambda: evaluator(key="pos")(_positional), "Evaluator 'pos': parameter 'word' is positional-only"),
        (lambda: evaluator(needs={"luck"})(_plain), "Evaluator '_plain': unknown needs: luck. Available: "),  # pyright: ignore[reportArgumentType]
        (lambda: evaluator(_odd), "Evaluator '_odd': unsupported parameter type"),
    ],
)
def test_invalid_declarations_are_rejected(declare: Any, why: str) -> None:
    with pytest.raises(DeclarationError) as raised:
        declare()

    assert why in raised.value.message


def _positional(case: Case, word: str, /) -> bool:
    return True


def _plain(case: Case) -> bool:
    return True


def _odd(case: Case, what: threading.Thread) -> bool:
    return True


async def test_a_sync_function_runs_in_the_given_executor_with_its_context_variables() -> None:
    which = contextvars.ContextVar[str]("which")
    which.set("mine")

    @evaluator
    def where(case: Case) -> str:
        return f"{threading.current_thread().name} {which.get()}"

    with ThreadPoolExecutor(1, thread_name_prefix="given") as threads:
        (one,) = await where.bind({}, OfflineContext(executor=threads)).score(CASE)

    assert one.label == "given_0 mine"


async def test_async_functions_and_awaitables_from_sync_functions_run_on_the_event_loop() -> None:
    loop = asyncio.get_running_loop()

    async def here(case: Case) -> bool:
        return asyncio.get_running_loop() is loop

    def later(case: Case) -> Any:
        return here(case)

    class Callable:
        async def __call__(self, case: Case) -> bool:
            return await here(case)

    assert (await score_case(evaluator(here), CASE)).passed
    assert (await score_case(evaluator(later), CASE)).passed
    assert (await score_case(evaluator(Callable()), CASE)).passed


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


def _failing_function(error: BaseException) -> Any:
    def fail(case: Case) -> bool:
        raise error

    return fail


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (ZeroDivisionError("division by zero"), "error", "evaluator_failed: ZeroDivisionError: division by zero"),
        (ValueError(), "error", "evaluator_failed: ValueError"),
        (StopIteration(), "error", "evaluator_failed: RuntimeError: coroutine raised StopIteration"),
        (SystemExit(3), "error", "evaluator_failed: SystemExit: 3"),
        (Unspeakable(), "error", "evaluator_failed: Unspeakable"),
        (asyncio.CancelledError(), "error", "evaluator_failed: CancelledError"),
        (Skip("no_expected", "nothing is"), "skipped", "no_expected: nothing is"),
        (Skip("no_expected"), "skipped", "no_expected"),
        (ScoringError("regex_timeout", "too long"), "error", "regex_timeout: too long"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
async def test_an_exception_becomes_an_error_or_skipped_record_with_a_one_line_reason(
    error: BaseException, status: str, reason: str, is_async: bool
) -> None:
    async def fail(case: Case) -> bool:
        raise error

    one = await score_case(evaluator(fail if is_async else _failing_function(error)), CASE)

    assert (one.evaluator, one.status, one.reason, one.passed, one.score) == ("fail", status, reason, None, None)


async def test_cancelling_the_scoring_task_raises_cancelled_error() -> None:
    started = asyncio.Event()

    @evaluator
    async def wait(case: Case) -> bool:
        started.set()
        await asyncio.Event().wait()
        return True

    task = asyncio.create_task(wait.bind({}, OfflineContext()).score(CASE))
    await started.wait()
    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_threshold_parameter_overrides_passed_and_a_declared_one_is_only_a_default() -> None:
    @evaluator(threshold=0.5)
    async def own(case: Case) -> Score:
        return Score(passed=False, score=0.6)

    assert [(await score_case(own, CASE)).passed, (await score_case(own, CASE, threshold=0.6)).passed] == [
        False,
        True,
    ]
    assert (await score_case(polite, CASE, words=["please", "thanks"])).passed is False
    assert (await score_case(polite, CASE, words=["please", "thanks"], threshold=0.5)).passed is True
    assert (await score_case(polite, CASE, threshold=1)).passed is True
    assert (await score_case(polite, CASE, threshold=None)).passed is None


async def test_a_mapping_that_cannot_be_iterated_is_an_error() -> None:
    class Own(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise KeyError(key)

        def __iter__(self) -> Any:
            raise RuntimeError("no keys")

        def __len__(self) -> int:
            return 1

    @evaluator
    async def odd(case: Case) -> Any:
        return Own()

    assert (await score_case(odd, CASE)).reason == "evaluator_failed: RuntimeError: no keys"


async def test_score_name_comes_from_the_plan_then_the_parameters_then_the_key() -> None:
    names = [
        (await polite.bind({"name": "by parameter"}, OfflineContext(), name="by plan").score(CASE))[0].evaluator,
        (await polite.bind({"name": "by parameter"}, OfflineContext()).score(CASE))[0].evaluator,
        (await polite.bind({}, OfflineContext()).score(CASE))[0].evaluator,
    ]

    assert names == ["by plan", "by parameter", "polite"]


async def test_an_evaluator_that_needs_an_expected_answer_is_skipped_without_one() -> None:
    @evaluator(needs={"expected"})
    async def same(case: Case) -> bool:
        return case.text == case.expected

    one = await score_case(same, answer("x"))

    assert (one.status, one.reason) == ("skipped", "no_expected: the row has no expected answer")
    assert (await score_case(same, answer("x", expected="x"))).passed


async def test_a_check_function_can_reject_the_parameters_when_binding() -> None:
    def check(parameters: Any, context: EvaluatorContext) -> None:
        context.evaluator("contains")
        if parameters.word == "bad":
            raise InvalidValue("No bad words.", pointer="/parameters/word")

    @evaluator(check=check)
    async def checked(case: Case, context: EvaluatorContext, word: str = "") -> str:
        return f"{word} {context.evaluator('contains').key}"

    with pytest.raises(InvalidValue, match="No bad words"):
        checked.bind({"word": "bad"}, OfflineContext())
    assert (await score_case(checked, CASE, word="good")).label == "good contains"
    assert list(checked.schema["properties"]) == ["word", "threshold", "name"]


async def test_a_target_parameter_adds_the_parameters_shared_by_built_ins() -> None:
    @evaluator
    async def aimed(case: Case, target: Target) -> str:
        return target.text(case)

    assert list(aimed.schema["properties"]) == [
        "target",
        "stringify",
        "expected_from",
        "case_sensitive",
        "threshold",
        "name",
    ]
    assert (await score_case(aimed, answer({"a": 1}, is_chat=False), stringify=True)).label == '{"a":1}'


@pytest.mark.parametrize(
    ("output", "reason"),
    [
        ("", "too short; empty"),
        (None, "too short; empty"),
        ({"role": "assistant", "parts": [{"type": "refusal", "text": "No."}]}, "too short; refusal"),
        ({"a": 1}, "too short; data_only"),
        ("text", "too short"),
    ],
)
async def test_the_reason_includes_the_note_about_missing_text(output: Any, reason: str) -> None:
    @evaluator
    async def long(case: Case, target: Target) -> Score:
        return Score(passed=False, reason="too short")

    assert (await score_case(long, answer(output))).reason == reason


async def test_every_score_record_has_the_duration() -> None:
    @evaluator
    async def several(case: Case) -> list[Score]:
        await asyncio.sleep(0)
        return [Score(name="a", score=1), Score(name="b", score=0)]

    first, second = await score_records(several, CASE)

    assert first.seconds == second.seconds > 0


async def test_a_default_list_is_not_shared_between_calls() -> None:
    @evaluator
    async def greedy(case: Case, seen: list[int] = []) -> int:  # noqa: B006
        seen.append(1)
        return len(seen)

    assert [(await score_case(greedy, CASE)).score, (await score_case(greedy, CASE)).score] == [1.0, 1.0]
