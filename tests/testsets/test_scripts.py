"""Scripts: detected by shape, parsed into messages, rejected with a pointer."""

from typing import Any

import msgspec
import pytest

from palaver.core.messages import File, Message, Text, ToolCall
from palaver.errors import InvalidValue
from palaver.testsets.scripts import (
    CannedResult,
    Script,
    ScriptTurn,
    Simulate,
    check_scripts,
    find_canned_result,
    is_script,
    read_script,
)

EXAMPLE: dict[str, Any] = {
    "start": [{"role": "system", "content": "You help with OpenFn jobs."}],
    "turns": [
        {
            "user": "Fetch patients from the API",
            "expect": {"text": {"contains": ["get("]}, "tools": "none", "max_seconds": 20},
        },
        {
            "user": "Which adaptor docs say so?",
            "tool_results": {"search_docs": {"output": {"hits": [{"id": "http", "title": "http adaptor"}]}}},
            "expect": {
                "tools": [{"name": "search_docs", "arguments": {"q": "http"}, "match": "subset"}, "fetch"],
                "order": "strict",
                "text": {"matches": "(?i)http", "not_contains": "I think"},
            },
        },
        {"assistant": "A fixed answer, put into the history as it is."},
        {"user": "Thanks", "expect": {"refusal": False, "judge": "It ends politely without new advice."}},
    ],
    "expect": {"goal": "The user knows which adaptor to use and why."},
    "stop": "never",
}


def test_the_example_script_is_detected_and_parsed() -> None:
    assert is_script(EXAMPLE)

    turns = EXAMPLE["turns"]
    assert read_script(EXAMPLE) == Script(
        start=(Message.system("You help with OpenFn jobs."),),
        turns=(
            ScriptTurn(user=Message.user("Fetch patients from the API"), expect=turns[0]["expect"]),
            ScriptTurn(
                user=Message.user("Which adaptor docs say so?"),
                tool_results={"search_docs": (CannedResult({"hits": [{"id": "http", "title": "http adaptor"}]}),)},
                expect=turns[1]["expect"],
            ),
            ScriptTurn(assistant=Message.assistant("A fixed answer, put into the history as it is.")),
            ScriptTurn(user=Message.user("Thanks"), expect=turns[3]["expect"]),
        ),
        expect={"goal": "The user knows which adaptor to use and why."},
        stop="never",
    )


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        "turns",
        {},
        {"turns": []},
        {"turns": "user"},
        {"turns": ["user"]},
        {"turns": [{}]},
        {"turns": [{"bot": "hi"}]},
        {"turns": [{"user": "a", "assistant": "b"}]},
        {"turns": [{"user": 5}]},
        {"turns": [{"user": None}]},
        {"turns": [{"simulate": "eliza"}]},
        {"turns": [{"simulate": {"workflow": "w", "goal": "g"}}, {"user": "after it"}]},
    ],
)
def test_values_of_another_shape_are_not_scripts(value: object) -> None:
    assert not is_script(value)
    with pytest.raises(InvalidValue, match="A script must have `turns`"):
        read_script(value)


def test_a_user_turn_is_text_parts_or_a_message_in_any_dialect() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    palaver_file = {"type": "file", "media_type": "image/png", "url": "https://example.org/a.png"}
    texts = [
        "hi",
        [{"type": "text", "text": "hi"}, image],
        [palaver_file],
        {"role": "user", "content": "hi"},
        {"content": "hi"},
    ]

    script = read_script({"turns": [{"user": each} for each in texts]})

    assert [turn.user for turn in script.turns] == [
        Message.user("hi"),
        Message.user(Text("hi"), File("image/*", url="https://example.org/a.png")),
        Message.user(File("image/png", url="https://example.org/a.png")),
        Message.user("hi"),
        Message.user("hi"),
    ]


def test_a_fixed_answer_may_call_tools() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}

    script = read_script({"turns": [{"assistant": {"role": "assistant", "content": None, "tool_calls": [call]}}]})

    assert script.turns[0].assistant == Message.assistant(ToolCall("c1", "f", '{"a": 1}'))


def test_the_last_turn_may_simulate_the_user_with_another_workflow() -> None:
    simulate = {"workflow": "patient", "goal": "Book a visit.", "persona": "in a hurry"}

    script = read_script({"turns": [{"user": "hi"}, {"simulate": simulate}]})

    assert script.turns[1].simulate == Simulate("patient", "Book a visit.", "in a hurry", 8)


@pytest.mark.parametrize(
    ("changes", "pointer", "message"),
    [
        (
            {"expect": {"tone": "kind"}},
            "/turns/0/expect/tone",
            "Unknown key 'tone' in `expect`. Available: text, tools, order, json",
        ),
        ({"expect": []}, "/turns/0/expect", "`expect` must be an object."),
        ({"expect": {"text": {"has": "x"}}}, "/turns/0/expect/text/has", "Unknown key 'has' in `text`"),
        ({"expect": {"text": 5}}, "/turns/0/expect/text", "`text` must be a string to find"),
        ({"expect": {"text": {"contains": [1]}}}, "/turns/0/expect/text/contains", "a list of strings"),
        ({"expect": {"text": {"matches": "("}}}, "/turns/0/expect/text/matches", "Invalid regular expression"),
        ({"expect": {"text": {"similar": {"to": "a", "min": 2}}}}, "/turns/0/expect/text/similar/min", "from 0 to 1"),
        ({"expect": {"tools": "some"}}, "/turns/0/expect/tools", "a list of calls"),
        (
            {"expect": {"tools": ["f", 1]}},
            "/turns/0/expect/tools/1",
            "A call must be the name of a tool, or {name, arguments?, match?}.",
        ),
        ({"expect": {"tools": [""]}}, "/turns/0/expect/tools/0", "A call must be the name of a tool"),
        ({"expect": {"tools": [{"name": "f", "match": "x"}]}}, "/turns/0/expect/tools/0/match", "one of exact, subset"),
        ({"expect": {"order": "any"}}, "/turns/0/expect/order", "one of strict, in_order"),
        ({"expect": {"json": []}}, "/turns/0/expect/json", "an object of paths and expected values"),
        ({"expect": {"data": {}}}, "/turns/0/expect/data", "{name, value?}"),
        ({"expect": {"refusal": 1}}, "/turns/0/expect/refusal", "true or false"),
        ({"expect": {"max_seconds": True}}, "/turns/0/expect/max_seconds", "a number"),
        ({"expect": {"judge": " "}}, "/turns/0/expect/judge", "a non-empty string"),
        ({"tool_results": []}, "/turns/0/tool_results", "`tool_results` must be an object"),
        ({"tool_results": {"a/b": 1}}, "/turns/0/tool_results/a~1b", "A canned result must be"),
        (
            {"tool_results": {"f": [{"when": 1, "output": 1}]}},
            "/turns/0/tool_results/f/0/when",
            "`when` must be an object",
        ),
        ({"user": {"role": "assistant", "content": "x"}}, "/turns/0/user", "one user message"),
        ({"user": [1]}, "/turns/0/user/0", "no supported content"),
    ],
)
def test_errors_in_a_turn_are_reported_with_a_pointer(changes: dict[str, Any], pointer: str, message: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_script({"turns": [{"user": "hi", **changes}]})

    assert caught.value.pointer == pointer
    assert message in caught.value.message


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"expect": {"text": "x"}}, "/expect/text"),
        ({"stop": "soon"}, "/stop"),
        ({"start": [{"content": "by nobody"}]}, "/start/0"),
        ({"turns": [{"simulate": {"workflow": "w"}}]}, "/turns/0/simulate"),
        ({"turns": [{"simulate": {"workflow": "w", "goal": "g", "max_turns": 0}}]}, "/turns/0/simulate/max_turns"),
        ({"turns": [{"assistant": "x", "expect": {"text": "x"}}]}, "/turns/0/expect"),
    ],
)
def test_errors_in_a_script_are_reported_with_a_pointer(changes: dict[str, Any], pointer: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        read_script({"turns": [{"user": "hi"}], **changes}, "/rows/3/data/script")

    assert caught.value.pointer == f"/rows/3/data/script{pointer}"


def test_every_script_cell_of_a_row_is_checked() -> None:
    check_scripts({"a": 1, "b": {"turns": "of a wheel"}, "script": EXAMPLE}, "/data")

    with pytest.raises(InvalidValue) as caught:
        check_scripts({"a": 1, "x/y": {"turns": [{"user": "hi", "expect": {"x": 1}}]}}, "/data")
    assert caught.value.pointer == "/data/x~1y/turns/0/expect/x"


def test_canned_results_match_name_and_arguments_in_the_turn_then_the_script() -> None:
    script = read_script(
        {
            "turns": [
                {
                    "user": "hi",
                    "tool_results": {
                        "search": [
                            {"when": {"q": "http", "in": {"page": 1}}, "output": "narrow"},
                            {"when": {"q": "http"}, "output": None},
                        ]
                    },
                }
            ],
            "tool_results": {"search": {"output": "any"}},
        }
    )
    [turn] = script.turns

    assert find_canned_result(script, turn, "search", {"q": "http", "in": {"page": 1.0, "size": 5}}) == "narrow"
    assert find_canned_result(script, turn, "search", '{"q": "http", "in": {"page": true}}') is None
    assert find_canned_result(script, turn, "search", "not JSON") == "any"
    assert find_canned_result(script, None, "search", {}) == "any"
    assert find_canned_result(script, turn, "other", {}) is msgspec.UNSET
