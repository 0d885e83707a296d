"""The working folder of a reader of the docs: the files that commands name, and earlier commands."""

import gzip
from collections.abc import Sequence
from pathlib import Path

import msgspec

APP = '''
from typing import Annotated

from palaver import Case, Message, Parameter, chat, evaluator


@chat
async def tutor(
    messages: list[Message],
    subject: str = "maths",
    style: Annotated[str, Parameter(description="Tone of the answers.")] = "patient",
    temperature: Annotated[float, Parameter(description="Sampling temperature.")] = 0.2,
):
    """Explains a subject."""
    yield f"A little about {subject}, please."


@evaluator
def polite(case: Case, words: list[str] = ["please", "thank"]) -> bool:
    """Does the answer have manners?"""
    return any(word in case.text.lower() for word in words)
'''
ROWS = [{"content": f"Question {n}", "expected": "A little about maths, please."} for n in range(3)]
TALK = {
    "inputs": {"prompt": [{"role": "user", "content": "Weather in Oslo?"}]},
    "outputs": {"completion": [{"role": "assistant", "content": "Rain."}]},
}
SPAN = {
    "traceId": "0af7651916cd43dd8448eb211c80319c",
    "spanId": "b7ad6b7169203331",
    "name": "chat gpt-4o",
    "startTimeUnixNano": "1760000000000000000",
    "endTimeUnixNano": "1760000000800000000",
    "status": {"code": 2},
    "attributes": [{"key": "session.id", "value": {"stringValue": "s-1"}}],
}
OTLP = {"resourceSpans": [{"scopeSpans": [{"spans": [SPAN]}]}]}

EARLIER_COMMANDS: dict[str, Sequence[Sequence[str]]] = {
    "docs/guides/backup.md": [["key", "create"], ["backup", "palaver-2026-11-15.zip"]],
    "docs/reference/evaluation.md": [["eval", "app.py", "questions.jsonl", "-e", "exact_match", "--db", "eval.db"]],
    "docs/reference/traces.md": [["trace", "import", "collector/one.json.gz"]],
    "docs/reference/variants.md": [["variant", "import", f"earlier/{version}"] for version in (1, 2, 3)],
}
"""Commands that a reader of the page has run before."""


def create_reader_folder(folder: Path) -> None:
    """Create the files that the commands of the docs name."""
    encode = msgspec.json.encode
    cells = [f"{row['content']},{row['expected']!r}".replace("'", '"') for row in ROWS]
    files = {
        "app.py": APP.encode(),
        "cases.csv": "\n".join(["content,expected", *cells, ""]).encode(),
        "payload.json": encode({"messages": [{"role": "user", "content": "Why?"}], "inputs": {"subject": "physics"}}),
        "sky.png": b"\x89PNG",
        "trace.json": encode(TALK),
        "value.json": encode(TALK),
        "spans.jsonl": encode(TALK) + b"\n" + encode(TALK) + b"\n",
        "questions.jsonl": b"".join(encode(row) + b"\n" for row in ROWS),
        "collector/one.json.gz": gzip.compress(encode(OTLP)),
        "script.json": b"[]",
        "rubric.json": encode({"prompt": "Is this polite? {{text}}"}),
        "docs/start.md": b"# Start\n\nWith a job.\n",
    }
    files["questions.csv"] = files["cases.csv"] + b"Question 4,42\n"
    for version in (1, 2, 3):
        short = {
            "palaver": "variant/1",
            "workflow": "tutor",
            "name": "short",
            "parameters": {"temperature": version / 10},
        }
        files[f"earlier/{version}/tutor/short.json"] = encode({**short, "description": ""})
    (folder / "variants").mkdir(parents=True)
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
