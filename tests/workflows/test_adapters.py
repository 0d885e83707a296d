"""Framework adapters: found by entry point, loaded lazily, selected by the package of a class."""

import importlib.metadata
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint
from types import ModuleType
from typing import Any

import pytest

from palaver import Data, Message, Text, Usage, chat, workflow
from palaver.core.grammar import OutputValue
from palaver.errors import InvalidName, NotAWorkflow
from palaver.workflows import adapters
from palaver.workflows.adapters import adapter_for, adapter_for_class, choose_name
from palaver.workflows.decorators import FunctionWorkflow
from palaver.workflows.workflow import Options
from tests.engine.run_factory import QUESTION, reply, reply_of, run_to_end


class Note:
    """The message class of a third-party framework."""

    __module__ = "notes.messages"

    def __init__(self, text: str) -> None:
        self.text = text


class Player:
    """The agent class of that framework."""

    __module__ = "notes"

    def play(self, notes: list[Note]) -> str:
        return " ".join(note.text for note in notes)


class OwnPlayer(Player):
    """A subclass written by the author of a workflow."""


class Reader:
    def __init__(self, history: Sequence[Message]) -> None:
        self.warnings = [f"{len(history)} before"]

    def feed(self, value: Any) -> Iterable[OutputValue] | None:
        match value:
            case Note():
                return [Text(text=value.text)]
            case list() if all(isinstance(note, Note) for note in value):
                return [Message.assistant("".join(note.text for note in value))]
            case _:
                return None

    def end(self) -> Iterable[OutputValue]:
        return [Usage(1, 2)]


def adopt(thing: Any, *, name: str | None, description: str | None, flags: Mapping[str, bool], options: Options) -> Any:
    if not isinstance(thing, Player):
        return None

    def answer(messages: list[Note]) -> str:
        return thing.play(messages)

    chosen_name = choose_name(name, type(thing).__name__.lower())
    return FunctionWorkflow(answer, name=chosen_name, description=description or "", flags=dict(flags), options=options)


@pytest.fixture(autouse=True)
def notes(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The adapter of a third-party package, next to one that cannot be imported."""
    module = ModuleType("notes_for_palaver")
    members: dict[str, Any] = {
        "PACKAGES": ("notes",),
        "MESSAGES": Note,
        "adopt": adopt,
        "Reader": Reader,
        "written": lambda messages: [Note(message.text) for message in messages],
    }
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, "notes_for_palaver", module)
    installed = importlib.metadata.entry_points(group=adapters.ENTRY_POINTS)
    group = adapters.ENTRY_POINTS
    entries = [
        EntryPoint(name="broken", value="no_such_package.palaver", group=group),
        EntryPoint(name="notes", value="notes_for_palaver", group=group),
        *installed,
    ]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: entries)
    adapters._adapters.cache_clear()
    adapters._ADAPTER_BY_CLASS.clear()
    yield module
    adapters._adapters.cache_clear()
    adapters._ADAPTER_BY_CLASS.clear()


# Finding the adapter


def test_an_adapter_is_found_by_the_package_of_a_class_or_of_its_bases(notes: ModuleType) -> None:
    for thing in (Note("a"), Player(), OwnPlayer()):
        assert adapter_for(thing) is notes
    assert adapter_for_class(OwnPlayer) is notes


@pytest.mark.parametrize("thing", ["a", 1, None, [], {}, (), 1.5, True, b"", object(), Text(text="a"), len, Options()])
def test_no_adapter_is_looked_up_for_builtin_and_palaver_types(thing: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group: str) -> Any:
        raise AssertionError("an adapter was looked for")

    monkeypatch.setattr(importlib.metadata, "entry_points", refuse)
    assert adapter_for(thing) is None


def test_a_class_of_no_framework_has_no_adapter() -> None:
    class Own: ...

    assert adapter_for(Own()) is None


def test_an_adapter_that_cannot_be_loaded_is_logged_and_the_others_work(
    notes: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    assert adapter_for(Note("a")) is notes
    assert [record.getMessage() for record in caplog.records] == [
        "Failed to load the framework adapter broken (no_such_package.palaver): No module named 'no_such_package'"
    ]


LAZY_IMPORT_PROGRAM = """
import sys
import palaver
from palaver.workflows.adapters import adapter_for
class Own: ...
assert adapter_for(Own()) is None  # Every adapter was asked whether it is theirs.
found = {"langchain_core", "langchain", "langgraph", "agents", "openai", "pydantic_ai", "pydantic"} & set(sys.modules)
print(*sorted(found))
"""


def test_looking_up_an_adapter_imports_no_framework() -> None:
    run = subprocess.run([sys.executable, "-c", LAZY_IMPORT_PROGRAM], capture_output=True, text=True, check=True)

    assert run.stdout.split() == []


# Declarations


async def test_an_object_of_a_framework_becomes_a_workflow() -> None:
    adopted = chat(OwnPlayer())
    described = chat(Player(), name="player-1", description="Plays.", limits={"seconds": 2}).description

    assert reply_of(await run_to_end(adopted, QUESTION, Message.user("Now?"))) == reply(Message.assistant("Well? Now?"))
    assert (adopted.description.name, adopted.description.flags) == ("ownplayer", {"is_chat": True})
    assert (described.name, described.description) == ("player-1", "Plays.")
    assert chat(name="later")(Player()).description.name == "later"  # type: ignore[arg-type]


def test_the_options_of_a_framework_object_are_validated() -> None:
    with pytest.raises(InvalidName):
        chat(Player(), name="a b")
    with pytest.raises(Exception, match="unknown option limit"):
        chat(Player(), limit=1)  # type: ignore[call-overload]
    with pytest.raises(Exception, match="flag 'is_beta' must be True or False"):
        chat(Player(), flags={"is_beta": 1})  # type: ignore[dict-item]


def test_a_framework_object_that_does_not_run_is_rejected() -> None:
    with pytest.raises(NotAWorkflow, match="is not a workflow"):
        chat(Note("a"))


@pytest.mark.parametrize(
    ("explicit_name", "candidates", "name"),
    [
        ("own", ("other",), "own"),
        (None, ("My agent!", "x"), "My-agent"),
        (None, (None, "", "…", "second"), "second"),
        (None, ("a" * 80,), "a" * 64),
    ],
)
def test_the_name_is_the_given_one_or_the_first_usable_candidate(
    explicit_name: str | None, candidates: tuple[str | None, ...], name: str
) -> None:
    assert choose_name(explicit_name, *candidates) == name


def test_an_object_without_a_usable_name_is_rejected() -> None:
    with pytest.raises(InvalidName, match="Set one with the option 'name'"):
        choose_name(None, None, "…")


# Returned values


@pytest.mark.parametrize(
    ("value", "messages"),
    [
        (Note("a"), [Message.assistant("a")]),
        ([Note("a"), Note("b")], [Message.assistant("ab")]),
        ({"messages": [Note("a")]}, [Message.assistant("a")]),
        ({"messages": Note("a")}, [Message.assistant("a")]),
        ({"node": {"messages": [Note("a")]}, "other": {"messages": []}, "third": 1}, [Message.assistant("a")]),
        (
            [{"role": "user", "content": "Well?"}, Note("a"), Message.assistant("b")],
            [Message.assistant("a"), Message.assistant("b")],
        ),
    ],
    ids=["one", "a list", "under messages", "one under messages", "updates", "mixed"],
)
async def test_objects_of_a_framework_are_converted_by_its_reader(value: Any, messages: list[Message]) -> None:
    async def returned(messages: list[Message]) -> Any:
        return value

    async def yielded(messages: list[Message]) -> Any:
        yield value

    for function in (returned, yielded):
        run = await run_to_end(chat(function), QUESTION)
        assert reply_of(run) == reply(*messages, usage=Usage(1, 2))
        assert run.warnings == ["1 before"]


async def test_a_list_that_is_not_all_messages_is_data() -> None:
    class Named(Note):
        def model_dump(self, mode: str) -> Any:
            return {"note": self.text}

    async def answer(messages: list[Message]) -> Any:
        return [Named("a"), 5]

    assert reply_of(await run_to_end(chat(answer), QUESTION)).messages == (
        Message.assistant(Data(name="output", value=[{"note": "a"}, 5])),
    )


async def test_framework_messages_that_a_workflow_yields_become_text() -> None:
    @workflow
    async def headline() -> Any:
        yield Note("a")
        yield [1]
        yield Note("b")
        yield Note("c")

    assert reply_of(await run_to_end(headline)).value == ["a", [1], "bc"]


# Annotations


async def test_a_function_annotated_with_framework_messages_receives_them() -> None:
    async def answer(messages: list[Note]) -> str:
        return "/".join(f"{type(message).__name__} {message.text}" for message in messages)

    assert reply_of(await run_to_end(chat(answer), QUESTION)) == reply(Message.assistant("Note Well?"))
