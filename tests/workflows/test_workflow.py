"""A workflow made from a function: its description, calls, and direct use as a function."""

import functools
from pathlib import Path
from typing import Annotated, Any

import msgspec
import pytest

from palaver.core.messages import Message
from palaver.core.runs import Call
from palaver.errors import FaultyCall
from palaver.workflows.decorators import chat, workflow
from palaver.workflows.signature import Parameter
from palaver.workflows.workflow import FunctionWorkflow, Workflow
from tests.engine.run_factory import QUESTION, finished_event, last_event, run_to_end

FILE_NAME = Path(__file__).name


class Opaque: ...


@chat
def tutor(messages: list[Message], subject: str = "maths", heat: Annotated[float, Parameter()] = 0.2) -> str:
    """Explains a subject."""
    return f"{subject} {heat} {len(messages)}"


@workflow
def odd(a: Opaque, b: int, c: "Unknown", d: Annotated[Opaque, Parameter()]) -> Opaque:  # type: ignore[name-defined]  # noqa: F821
    return a


def test_a_declared_function_can_still_be_called() -> None:
    assert tutor([QUESTION], subject="physics") == "physics 0.2 1"
    assert vars(tutor)["__name__"] == "tutor"
    assert (tutor.__doc__, tutor.__module__) == ("Explains a subject.", __name__)


def test_a_declared_function_implements_the_workflow_protocol() -> None:
    assert isinstance(tutor, Workflow)


def test_a_workflow_has_a_description_and_a_repr() -> None:
    described = tutor.description

    assert msgspec.structs.asdict(described) | {"schemas": None} == {
        "name": "tutor",
        "description": "Explains a subject.",
        "flags": {"is_chat": True},
        "is_chat_source": "declared",
        "schemas": None,
        "inputs": {"subject": "maths"},
        "parameters": {"heat": 0.2},
        "streams": True,
        "remote": False,
    }
    assert (repr(tutor), repr(odd)) == ("<chat tutor>", "<workflow odd>")


def test_a_workflow_has_the_file_and_line_of_its_declaration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Agent:
        def __call__(self, messages: Any) -> None: ...

    line = Agent.__call__.__code__.co_firstlineno
    monkeypatch.chdir(Path(__file__).parents[1])
    assert tutor.place.startswith(f"{Path(__file__).parent.name}/{FILE_NAME}:")
    monkeypatch.chdir(tmp_path)
    assert tutor.place == f"{FILE_NAME}:{tutor.function.__code__.co_firstlineno}"
    assert chat(Agent()).place == chat(functools.partial(Agent()), name="w").place == f"{FILE_NAME}:{line}"
    assert workflow(abs).place == "builtin_function_or_method"


def test_parameters_and_results_without_a_schema_are_listed() -> None:
    assert odd.unknown_types == ["a", "c", "d", "return"]
    assert tutor.unknown_types == []


@pytest.mark.parametrize("arguments", [{"inputs": {"x": 1}}, {"parameters": {"x": 1}}])
def test_a_call_with_unknown_inputs_or_parameters_is_rejected(arguments: Any) -> None:
    with pytest.raises(FaultyCall):
        tutor.bind(Call(workflow="tutor", **arguments))


@pytest.mark.parametrize(
    ("inputs", "value"),
    [
        ({"a": 1}, [1, 2, 3, 4, {}, "run_"]),
        ({"a": 1, "b": 5, "d": 6, "e": 7}, [1, 5, 3, 6, {"e": 7}, "run_"]),
    ],
)
async def test_inputs_are_passed_to_the_matching_parameters(inputs: Any, value: Any) -> None:
    def f(a: int, b: int = 2, /, c: int = 3, *, ctx: Any, d: int = 4, **more: Any) -> Any:
        return [a, b, c, d, more, ctx.run_id[:4]]

    run = await run_to_end(workflow(f), inputs=inputs)

    assert last_event(run) == finished_event(value=value)


async def test_methods_objects_and_partials_run_like_functions() -> None:
    class Agent:
        async def __call__(self, x: int) -> int:
            return x + 1

        def method(self, x: int) -> int:
            return x + 2

    class Stream:
        async def __call__(self, x: int) -> Any:
            yield x + 3

    agent = Agent()
    declared: list[tuple[FunctionWorkflow, int]] = [
        (workflow(agent), 2),
        (workflow(agent.method), 3),
        (workflow(Stream()), 4),
        (workflow(functools.partial(agent.method), name="p"), 3),
        (workflow(functools.partial(agent), name="p"), 2),
        (workflow(workflow(agent), name="again"), 2),
    ]

    for each, value in declared:
        run = await run_to_end(each, inputs={"x": 1})
        assert last_event(run) == finished_event(value=value), each
