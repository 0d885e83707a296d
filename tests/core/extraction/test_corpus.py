"""Recorded values of other systems and the messages expected from them; tests/corpus/README.md explains the fields."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import msgspec
import pytest

from palaver.core.extraction import extract_chat_messages, messages, read_conversation, search
from palaver.core.extraction.previews import preview
from palaver.core.json import escape_pointer
from palaver.core.messages import Data, File, Message, Part, Reasoning, Refusal, Text, ToolCall, ToolResult

P = TypeVar("P", bound=Part)
CORPUS = Path(__file__).parents[2] / "corpus"
FILES = sorted(CORPUS.rglob("*.json"))
PREFERENCES: dict[str, Any] = {"none": None, "input": "input", "output": "output"}
ORIGINS = (
    "agenta ai-sdk anthropic decoys gemini gen-ai langchain langgraph mlflow openai-chat openai-responses"
    " openinference openllmetry others palaver"
).split()


class Case(msgspec.Struct, forbid_unknown_fields=True):
    """One file of the corpus."""

    about: str
    value: Any
    expect: dict[str, dict[str, Any]]


def case_name(path: Path) -> str:
    return str(path.relative_to(CORPUS).with_suffix(""))


@pytest.mark.parametrize("path", FILES, ids=case_name)
def test_each_corpus_file_yields_its_expected_outcome(path: Path) -> None:
    case = msgspec.json.decode(path.read_bytes(), type=Case)

    assert outcomes(case) == expected(case)


def test_every_corpus_file_has_a_description_and_valid_expectations() -> None:
    for path in FILES:
        case = msgspec.json.decode(path.read_bytes(), type=Case)
        assert case.about.endswith("."), case_name(path)
        assert case.expect.keys() <= {"any", *PREFERENCES}, case_name(path)


def test_the_corpus_has_enough_files_of_every_origin() -> None:
    counts = {folder.name: len(list(folder.glob("*.json"))) for folder in sorted(CORPUS.iterdir()) if folder.is_dir()}

    assert list(counts) == ORIGINS
    assert counts["decoys"] >= 30
    assert sum(counts.values()) - counts["decoys"] >= 60
    assert min(counts.values()) >= 5


def test_the_readme_names_every_folder() -> None:
    readme = (CORPUS / "README.md").read_text("utf-8")

    assert [origin for origin in ORIGINS if f"`{origin}/`" not in readme] == []


def test_the_readme_example_yields_its_expected_outcome() -> None:
    _, _, remaining = (CORPUS / "README.md").read_text("utf-8").partition("```json\n")
    case = msgspec.json.decode(remaining.partition("```")[0], type=Case)

    assert outcomes(case) == expected(case)


# The outcome for a value, in the format of the corpus files


def expected(case: Case) -> dict[str, Any]:
    return {output: case.expect.get(output, case.expect.get("any")) for output in PREFERENCES}


def outcomes(case: Case) -> dict[str, Any]:
    return {output: outcome(case.value, prefer) for output, prefer in PREFERENCES.items()}


def outcome(value: Any, prefer: Any) -> dict[str, Any]:
    """The conversation, where both searches found it and a summary of its messages; or else its preview."""
    result, read, rendered = (
        extract_chat_messages(value, prefer),
        read_conversation(value, prefer),
        preview(value, prefer),
    )
    if read is None:
        document = {"text": rendered.text} if rendered.renderer == "text" else {}
        return {"renderer": rendered.renderer, **document} | (
            {} if result is None else {"strict": strict_pointer(value, result)}
        )
    assert rendered.renderer == "chat"
    messages = join_turns(read.messages) if read.dialect == "responses" else read.messages
    return {
        "strict": None if result is None else strict_pointer(value, result),
        "path": read.path,
        "dialect": read.dialect,
        "side": read.side,
        "messages": list(summarize_messages(messages, msgspec.json.encode(value).decode())),
    }


def strict_pointer(value: Any, result: list[Any]) -> str:
    """The pointer to the strict result: the list, the choices that hold its messages, or the single message."""
    for pointer, content in walk(value):
        if content is result or (len(result) == 1 and content is result[0]):
            return pointer
        if pointer.endswith("/choices") and any(
            output is result[0] for choice in content for output in choice.values()
        ):
            return pointer
    raise AssertionError("What was found does not stand in the value.")


def walk(value: Any, pointer: str = "") -> Iterator[tuple[str, Any]]:
    yield pointer, value
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, content in inside:
        yield from walk(content, f"{pointer}/{escape_pointer(str(step))}")


def join_turns(messages: Iterable[Message]) -> list[Message]:
    """Join consecutive assistant messages: items of one turn may be read as one message or several."""
    turns: list[Message] = []
    for message in messages:
        if turns and turns[-1].role == message.role == "assistant":
            message = Message(role="assistant", parts=(*turns.pop().parts, *message.parts), name=message.name)
        turns.append(message)
    return turns


def summarize_messages(messages: Sequence[Message], payload: str) -> Iterator[dict[str, Any]]:
    """Summarize messages as the corpus files do; ids that are not in the payload become #1, #2 and so on."""
    created: dict[str, str] = {}

    def stable_id(call_id: str) -> str:
        return call_id if call_id in payload else created.setdefault(call_id, f"#{len(created) + 1}")

    for message in messages:
        parts = message.parts
        document = {
            "text": message.text,
            "name": None if message.role == "tool" else message.name,
            "reasoning": "".join(part.text for part in parts_of_type(Reasoning, parts)),
            "refusal": "".join(part.text for part in parts_of_type(Refusal, parts)),
            "calls": [
                {"id": stable_id(part.call_id), "name": part.name, "arguments": part.arguments}
                for part in parts_of_type(ToolCall, parts)
            ],
            "results": [
                {"id": stable_id(part.call_id), "output": part.output} | ({"error": True} if part.is_error else {})
                for part in parts_of_type(ToolResult, parts)
            ],
            "files": [without_type(part) for part in parts_of_type(File, parts)],
            "data": [part.name for part in parts_of_type(Data, parts)],
            "cites": [note.url or note.title for part in parts_of_type(Text, parts) for note in part.annotations],
        }
        yield {"role": message.role, **{key: value for key, value in document.items() if value}}


def without_type(part: Part) -> dict[str, Any]:
    return {key: value for key, value in msgspec.to_builtins(part).items() if key != "type"}


def parts_of_type(kind: type[P], parts: Iterable[Part]) -> list[P]:
    return [part for part in parts if isinstance(part, kind)]


def test_json_values_never_take_the_fallback_for_other_values(monkeypatch: pytest.MonkeyPatch) -> None:
    detours: list[str] = []
    monkeypatch.setattr(messages, "_read_element", lambda *_: detours.append("read part by part") or [])
    monkeypatch.setattr(search, "plain_copy", lambda value: detours.append("copied") or value)

    for path in FILES:
        value = msgspec.json.decode(path.read_bytes(), type=Case).value
        for prefer in PREFERENCES.values():
            read_conversation(value, prefer)

    assert detours == []
