"""examples/tuned_guide.py: its variants are imported as its header says, and each answers in its style."""

from pathlib import Path

import pytest

from palaver.testing import client
from tests.examples.conftest import EXAMPLES, Example, example_commands, run_palaver
from tests.examples.server_calls import complete_chat, invoke, user

REPLIES = {
    "default": "You will love Oslo! Don't miss: the roof of the opera, the fjord. 100 EUR a day is enough.",
    "brief": "Oslo: the roof of the opera. 100 EUR a day.",
    "northern": "You will love Oslo! Don't miss: the roof of the opera, the fjord, the sculpture park."
    " 1200 NOK a day is enough.",
}


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, example: Example, capsys: pytest.CaptureFixture[str]) -> str:
    """A database with the variants that the first command of the header imports."""
    monkeypatch.chdir(EXAMPLES.parent)
    import_command, _ = example_commands("tuned_guide")
    db = str(tmp_path / "palaver.db")

    assert run_palaver([*import_command, "--db", db]) == 0
    assert capsys.readouterr().out == "2 created, 0 updated, 0 unchanged\n"
    return db


async def test_each_variant_answers_in_its_style(example: Example, db: str) -> None:
    async with client(*example("tuned_guide"), db=db) as http:
        headers_by_name = {name: {"x-palaver-variant": name} for name in REPLIES}
        replies = {name: await invoke(http, "guide", "Oslo?", headers) for name, headers in headers_by_name.items()}
        completions = {
            name: await complete_chat(http, "guide", "Oslo?", headers) for name, headers in headers_by_name.items()
        }

    assert replies == {name: {"role": "assistant", "content": text} for name, text in REPLIES.items()}
    assert completions == {name: (text, "stop") for name, text in REPLIES.items()}


def test_an_export_equals_the_variant_files_of_the_example(db: str, tmp_path: Path) -> None:
    def files(folder: Path) -> dict[str, str]:
        return {path.relative_to(folder).as_posix(): path.read_text("utf-8") for path in folder.rglob("*.json")}

    assert run_palaver(["variant", "export", str(tmp_path / "out"), "--db", db]) == 0
    assert files(tmp_path / "out") == files(EXAMPLES / "variants")


async def test_parameters_of_a_call_override_the_defaults_and_are_validated(example: Example) -> None:
    def body(**parameters: object) -> dict[str, object]:
        return {"messages": [user("Rome?")], "parameters": parameters}

    async with client(*example("tuned_guide")) as http:
        replies = await http.post("/guide/invoke", json=body(tone="dry", budget={"amount": 5}))
        invalid = await http.post("/guide/invoke", json=body(places=4, budget={"amount": -1}))
        unknown_city = await invoke(http, "guide", "Paris?")

    assert replies.json()["content"] == "Rome: the Pantheon, the market of Testaccio. 5 EUR a day."
    assert invalid.status_code == 422
    assert [fault["pointer"] for fault in invalid.json()["status"]["errors"]] == [
        "/parameters/places",
        "/parameters/budget/amount",
    ]
    assert unknown_city == {"role": "assistant", "content": "I only know Oslo and Rome."}
