"""Expecting: does a turn of a script keep to what the script expects of it (contract: test sets, A5)?

Each key of `expect` is one check, and says for people why it failed. What could not be found out (no judge to ask, a
pattern that never ends) has neither passed nor failed: it is an error, which nobody must take for a pass.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, cast

import msgspec
from msgspec import UNSET

from palaver.core import jsons
from palaver.core.parts import Data
from palaver.errors import InvalidValue
from palaver.evaluation.matching.calls import Mode, WantedCall, compare, read_calls
from palaver.evaluation.matching.marks import Marks
from palaver.evaluation.matching.refusals import refusal
from palaver.evaluation.matching.texting import text_fault
from palaver.evaluation.scoring.aside import aside
from palaver.evaluation.scoring.cases import Turn
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Unscored
from palaver.evaluation.scoring.spending import spend
from palaver.evaluation.values import found_json, paths
from palaver.evaluation.values.equality import same
from palaver.testsets.scripts import check_expect

JUDGE: Final = "default"
"""The judge that is asked where none is named: the one that the server is set up with."""
_VERDICT: Final = {
    "type": "object",
    "properties": {"passed": {"type": "boolean"}, "reason": {"type": "string"}},
    "required": ["passed"],
}


class Check(msgspec.Struct, frozen=True):
    """One thing that was expected, and whether it came."""

    name: str
    passed: bool
    reason: str = ""
    error: str | None = None
    """The code of what kept us from finding out."""


Expect = Mapping[str, Any]


async def checks(expect: Any, turn: Turn, reach: Reach) -> list[Check]:
    """What became of each expectation. A turn that was not reached has met none of them."""
    try:
        wanted = check_expect(expect, "/expect")
    except InvalidValue as error:  # Of a set this was checked when it was committed, of a case to be tried it was not.
        why = f"invalid_expect: {error.message}"
        return [Check("expect", passed=False, reason=why, error="invalid_expect")]
    names = [name for name in wanted if name != "order"]  # It says how tools are meant.
    if not turn.reached:
        return [Check(name, passed=False, reason="not_reached") for name in names or ("reached",)]
    return [
        await _judged(wanted[name], turn, reach)
        if name == "judge"
        else await aside(reach, _checked, name, wanted, turn)  # A pattern may take its time.
        for name in names
    ]


def _checked(name: str, expect: Expect, turn: Turn) -> Check:
    try:
        fault = _FAULTS[name](expect[name], turn, expect)
    except Unscored as error:
        return Check(name, passed=False, reason=str(error), error=error.code)
    return Check(name, passed=fault is None, reason=fault or "")


# One by one: what is wrong, or None


def _text(value: Any, turn: Turn, _expect: Expect) -> str | None:
    return text_fault(turn.text, {"contains": value} if isinstance(value, str) else value)


def _tools(value: Any, turn: Turn, expect: Expect) -> str | None:
    made = turn.tool_calls
    names = ", ".join(call.name for call in made)
    if value == "none":
        return f"called {names}" if made else None
    if value == "any":
        return None if made else "no tool was called"
    wanted = [_matched(call) for call in read_calls(value) or ()]
    mode = cast("Mode", expect.get("order", "strict"))
    if compare(made, wanted, mode=mode, match="ignore").passed:
        return None
    return f"called {names or 'nothing'}; wanted {', '.join(call.name for call in wanted) or 'nothing'} ({mode})"


def _matched(call: WantedCall) -> WantedCall:
    """Arguments that are given are a part of those wanted, unless it says otherwise."""
    return msgspec.structs.replace(call, match=call.match or ("ignore" if call.arguments is UNSET else "subset"))


def _json(value: Any, turn: Turn, _expect: Expect) -> str | None:
    found = _json_of(turn)
    if found is UNSET:
        return "there is no JSON in the answer"
    for path, wanted in cast("Mapping[str, Any]", value).items():
        try:
            there = paths.at(found, path)
        except ValueError as error:
            raise Unscored("invalid_path", str(error)) from None
        if there is UNSET:
            return f"there is nothing at {path}"
        if not same(there, wanted):
            return f"{path} is another"
    return None


def _json_of(turn: Turn) -> Any:
    if "data_only" in turn.notes:
        return _data_in(turn)[-1].value
    return found_json.found(turn.text) if turn.value is UNSET or isinstance(turn.value, str) else turn.value


def _data(value: Any, turn: Turn, _expect: Expect) -> str | None:
    name = value["name"]
    found = [part.value for part in _data_in(turn) if part.name == name]
    if not found:
        return f"there is no data named {name!r}"
    wanted = value.get("value", UNSET)
    return None if wanted is UNSET or any(same(one, wanted) for one in found) else f"the data {name!r} is another"


def _data_in(turn: Turn) -> list[Data]:
    return [part for message in turn.messages for part in message.parts if isinstance(part, Data)]


def _finish(value: Any, turn: Turn, _expect: Expect) -> str | None:
    return None if turn.finish == value else f"it finished by {turn.finish}"


def _refusal(value: Any, turn: Turn, _expect: Expect) -> str | None:
    why = refusal(turn.messages, turn.text, turn.finish)
    return None if (why is not None) == value else why or "it is no refusal"


def _max_seconds(value: Any, turn: Turn, _expect: Expect) -> str | None:
    return None if turn.latency <= value else f"it took {turn.latency:.3g} s"


def _max_tokens(value: Any, turn: Turn, _expect: Expect) -> str | None:
    if turn.usage is None:
        return "no usage is known"
    return None if turn.usage.output_tokens <= value else f"it has {turn.usage.output_tokens} tokens"


_FAULTS: Final[Mapping[str, Callable[[Any, Turn, Expect], str | None]]] = {
    "text": _text,
    "tools": _tools,
    "json": _json,
    "data": _data,
    "finish": _finish,
    "refusal": _refusal,
    "max_seconds": _max_seconds,
    "max_tokens": _max_tokens,
}


async def _judged(criterion: str, turn: Turn, reach: Reach) -> Check:
    if (known := turn.verdict) is not None:
        spend(known.usage, known.cost)
        return Check("judge", passed=known.passed, reason=known.reason)
    try:
        verdict = await reach.judge(JUDGE, _prompt(criterion, turn), schema=_VERDICT)
    except Unscored as error:
        return Check("judge", passed=False, reason=str(error), error=error.code)
    match verdict:
        case {"passed": bool(passed), **rest}:
            reason = rest.get("reason")
            return Check("judge", passed=passed, reason=reason if isinstance(reason, str) else "")
        case _:
            why = "bad_verdict: the judge's answer does not fit"
            return Check("judge", passed=False, reason=why, error="bad_verdict")


def _prompt(criterion: str, turn: Turn) -> str:
    marks = Marks()
    asked = jsons.whole_text(turn.user.text) if turn.user is not None else ""
    return (
        f"{marks.rule}\n\nDoes the answer to the question meet this criterion?\n\n{criterion}\n\n"
        f"{marks.around('question', asked)}\n\n{marks.around('answer', jsons.whole_text(turn.text))}"
    )
