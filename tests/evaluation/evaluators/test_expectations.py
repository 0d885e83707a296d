"""Each key of a script's `expect` is one check, with a reason when it fails."""

from typing import Any

import msgspec
import pytest
from msgspec import UNSET

from palaver.core.messages import Data, Message, Refusal, Usage
from palaver.evaluation.case import Turn
from palaver.evaluation.evaluators.expectations import ExpectationCheck, check_turn
from palaver.evaluation.network_context import OfflineContext
from tests.evaluation.evaluators.fake_judge import call, turn

TEXT_TURN = turn(Message.assistant("The http adaptor has get()."), user=Message.user("Which?"))
CALL_TURN = turn(
    Message.assistant(call("search", {"q": "http", "n": 1}, "c1")),
    Message.tool("c1", "found"),
    Message.assistant(call("fetch", '{"url": ', "c2")),
)


async def check_summaries(expect: Any, turn: Turn) -> list[tuple[str, bool, str]]:
    return [(check.name, check.passed, check.reason) for check in await check_turn(expect, turn, OfflineContext())]


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("http", None),
        ("HTTP", "the text does not contain 'HTTP'"),
        ({"equals": "The http adaptor has get()."}, None),
        ({"equals": "The http adaptor"}, "the text is not equal to 'The http adaptor'"),
        ({"contains": ["get(", "http"]}, None),
        ({"contains": ["get(", "post("]}, "the text does not contain 'post('"),
        ({"contains": "x" * 100}, f"the text does not contain '{'x' * 80}…'"),
        ({"not_contains": "I think"}, None),
        ({"not_contains": ["I think", "http"]}, "the text contains 'http'"),
        ({"any_of": ["post(", "get("]}, None),
        ({"any_of": ["post(", "put("]}, "the text contains none of the expected strings"),
        ({"matches": "(?i)HTTP"}, None),
        ({"matches": ["^The", "get$"]}, "the text does not match 'get$'"),
        ({"similar": {"to": "The http adaptor has get().", "min": 1}}, None),
        ({"similar": {"to": "The http adapter has get()"}}, None),
        ({"similar": {"to": "zzz", "min": 0.9}}, "similarity 0.00, expected at least 0.9"),
        ({"contains": "http", "not_contains": "get"}, "the text contains 'get'"),
        ({}, None),
    ],
)
async def test_text_must_meet_all_its_expectations(text: Any, fault: str | None) -> None:
    assert await check_summaries({"text": text}, TEXT_TURN) == [("text", fault is None, fault or "")]


@pytest.mark.parametrize(
    ("expect", "fault"),
    [
        ({"tools": "any"}, None),
        ({"tools": "none"}, "called search, fetch"),
        ({"tools": [{"name": "search"}, {"name": "fetch"}]}, None),
        ({"tools": ["search", "fetch"]}, None),
        ({"tools": [{"name": "search", "arguments": {"q": "http"}}, "fetch"]}, None),
        ({"tools": ["fetch"]}, "called search, fetch; expected fetch (strict)"),
        ({"tools": ["fetch", "search"], "order": "unordered"}, None),
        ({"tools": [{"name": "fetch"}, {"name": "search"}]}, "called search, fetch; expected fetch, search (strict)"),
        ({"tools": [{"name": "fetch"}, {"name": "search"}], "order": "unordered"}, None),
        ({"tools": [{"name": "fetch"}], "order": "in_order"}, None),
        ({"tools": [{"name": "fetch"}], "order": "superset"}, None),
        ({"tools": [{"name": "fetch"}], "order": "subset"}, "called search, fetch; expected fetch (subset)"),
        ({"tools": [{"name": "search", "arguments": {"q": "http"}}], "order": "superset"}, None),
        (
            {"tools": [{"name": "search", "arguments": {"q": "http"}, "match": "exact"}], "order": "superset"},
            "called search, fetch; expected search (superset)",
        ),
        (
            {
                "tools": [{"name": "search", "arguments": {"n": 1.0, "q": "http"}, "match": "exact"}],
                "order": "superset",
            },
            None,
        ),
        (
            {"tools": [{"name": "search", "arguments": {"required": ["q"]}, "match": "schema"}], "order": "superset"},
            None,
        ),
        ({"tools": [{"name": "fetch", "arguments": {"url": 1}, "match": "ignore"}], "order": "superset"}, None),
        (
            {"tools": [{"name": "fetch", "arguments": {}}], "order": "superset"},
            "called search, fetch; expected fetch (superset)",
        ),
        ({"tools": []}, "called search, fetch; expected none (strict)"),
    ],
)
async def test_tool_calls_must_match_the_expected_calls_and_order(expect: Any, fault: str | None) -> None:
    assert await check_summaries(expect, CALL_TURN) == [("tools", fault is None, fault or "")]


async def test_tool_expectations_of_a_turn_without_calls() -> None:
    assert await check_summaries({"tools": "none"}, TEXT_TURN) == [("tools", True, "")]
    assert await check_summaries({"tools": "any"}, TEXT_TURN) == [("tools", False, "no tool was called")]
    assert await check_summaries({"tools": [{"name": "a"}]}, TEXT_TURN) == [
        ("tools", False, "called no tools; expected a (strict)")
    ]
    assert await check_summaries({"order": "strict"}, TEXT_TURN) == []


JSON_TURN = turn(Message.assistant('Here:\n```json\n{"a": {"b": [1, true]}}\n```'))
DATA_TURN = turn(Message.assistant(Data(name="chart", value={"a": 1}), Data(name="chart", value={"a": 2})))


@pytest.mark.parametrize(
    ("expect", "turn", "fault"),
    [
        ({"json": {"a.b[0]": 1.0, "$.a.b[1]": True, "/a/b/0": 1}}, JSON_TURN, None),
        ({"json": {"a.b[1]": 1}}, JSON_TURN, "a.b[1] differs from the expected value"),
        ({"json": {"a.c": None}}, JSON_TURN, "a.c is missing"),
        ({"json": {"a": 1}}, TEXT_TURN, "no JSON in the answer"),
        ({"json": {"a": 2}}, DATA_TURN, None),
        ({"json": {"a": 3}}, turn(Message.assistant('{"a": 3}')), None),
        ({"data": {"name": "chart"}}, DATA_TURN, None),
        ({"data": {"name": "chart", "value": {"a": 1.0}}}, DATA_TURN, None),
        ({"data": {"name": "chart", "value": {"a": 3}}}, DATA_TURN, "data 'chart' differs from the expected value"),
        ({"data": {"name": "chart", "value": None}}, DATA_TURN, "data 'chart' differs from the expected value"),
        ({"data": {"name": "code-edit"}}, DATA_TURN, "no data named 'code-edit'"),
        ({"finish": "stop"}, TEXT_TURN, None),
        ({"finish": "length"}, TEXT_TURN, "the finish reason is 'stop'"),
        ({"refusal": False}, TEXT_TURN, None),
        ({"refusal": True}, TEXT_TURN, "not a refusal"),
        ({"refusal": True}, turn(Message.assistant(Refusal(text="No"))), None),
        ({"refusal": False}, turn(Message.assistant("I won't.")), 'begins with "i won\'t"'),
        ({"max_seconds": 2}, turn(Message.assistant("a"), latency=2.0), None),
        ({"max_seconds": 2}, turn(Message.assistant("a"), latency=2.51), "took 2.51 s"),
        ({"max_tokens": 5}, turn(usage=Usage(input_tokens=100, output_tokens=5)), None),
        ({"max_tokens": 4}, turn(usage=Usage(input_tokens=0, output_tokens=5)), "used 5 output tokens"),
        ({"max_tokens": 4}, TEXT_TURN, "the token usage is unknown"),
    ],
)
async def test_each_other_key_is_one_check_of_that_name(expect: Any, turn: Turn, fault: str | None) -> None:
    (name,) = expect
    assert await check_summaries(expect, turn) == [(name, fault is None, fault or "")]


async def test_json_expectations_apply_to_a_workflows_value() -> None:
    value_turn = msgspec.structs.replace(TEXT_TURN, value={"a": 1}, text="")

    assert await check_summaries({"json": {"a": 1}}, value_turn) == [("json", True, "")]


async def test_checks_are_in_the_order_of_the_keys() -> None:
    result = await check_summaries({"max_seconds": 1, "tools": "none", "order": "strict", "text": "http"}, TEXT_TURN)

    assert result == [("max_seconds", True, ""), ("tools", True, ""), ("text", True, "")]


@pytest.mark.parametrize("expect", [None, {}])
async def test_no_expectations_give_no_checks(expect: Any) -> None:
    assert await check_summaries(expect, TEXT_TURN) == []


async def test_a_turn_that_was_not_reached_fails_every_check() -> None:
    unreached = Turn(reached=False)

    assert await check_summaries({"text": "a", "judge": "b"}, unreached) == [
        ("text", False, "not_reached"),
        ("judge", False, "not_reached"),
    ]
    assert await check_summaries(None, unreached) == [("reached", False, "not_reached")]


@pytest.mark.parametrize(
    ("expect", "check"),
    [
        (
            {"judge": "It is polite."},
            ExpectationCheck(
                "judge",
                False,
                "not_available: the judge 'default' is not available in an offline context",
                "not_available",
            ),
        ),
        (
            {"text": {"matches": "^(a|a)*$"}},
            ExpectationCheck(
                "text", False, "regex_timeout: matching '^(a|a)*$' took longer than 0.1 s", "regex_timeout"
            ),
        ),
        (
            {"json": {"a[": 1}},
            ExpectationCheck(
                "json", False, "invalid_path: invalid path 'a[': use a.b[0], $.a[0] or /a/0", "invalid_path"
            ),
        ),
    ],
)
async def test_a_check_that_cannot_be_made_is_an_error(expect: Any, check: ExpectationCheck) -> None:
    checked_turn = turn(Message.assistant("a" * 40 + "!" if "text" in expect else '{"a": 1}'))

    assert await check_turn(expect, checked_turn, OfflineContext()) == [check]


@pytest.mark.parametrize("expect", [{"txet": "a"}, {"text": 3}, [], "Hi", {"data": {}}, {"tools": [3]}])
async def test_an_invalid_expectation_is_an_error(expect: Any) -> None:
    (check,) = await check_turn(expect, TEXT_TURN, OfflineContext())

    assert (check.name, check.passed, check.error) == ("expect", False, "invalid_expect")


@pytest.mark.parametrize(
    ("verdict", "check"),
    [
        ({"passed": True, "reason": "kind"}, ExpectationCheck("judge", True, "kind")),
        ({"passed": False, "reason": "rude"}, ExpectationCheck("judge", False, "rude")),
        ({"passed": False}, ExpectationCheck("judge", False, "")),
        (
            {"passed": "yes"},
            ExpectationCheck("judge", False, "bad_verdict: the verdict does not match the schema", "bad_verdict"),
        ),
        (UNSET, ExpectationCheck("judge", False, "bad_verdict: the verdict does not match the schema", "bad_verdict")),
    ],
)
async def test_a_judge_expectation_uses_the_verdict_of_the_judge(verdict: Any, check: ExpectationCheck) -> None:
    class JudgeContext:
        executor = None

        async def judge(self, judge: str, prompt: str, *, schema: Any) -> Any:
            assert all(snippet in prompt for snippet in ("Which?", "The http adaptor", "It is polite."))
            return verdict

    context: Any = JudgeContext()

    assert await check_turn({"judge": "It is polite."}, TEXT_TURN, context) == [check]
