"""A case written down, and what an evaluator says of it."""

from typing import Any

from msgspec import UNSET

from palaver.evaluation.case import Case
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.runner.manual_case import read_manual_case
from palaver.evaluation.score import ScoreRecord


def answer(output: Any = UNSET, *, is_chat: bool = True, **told: Any) -> Case:
    """The case of an answer; `expected`, `inputs`, `row`, `usage` … by keyword."""
    given = {} if output is UNSET else {"output": output}
    return read_manual_case({**given, "flags": {"is_chat": is_chat}, **told})


async def scored(which: str | Evaluator, case: Case, **parameters: Any) -> ScoreRecord:
    """The one thing that an evaluator says of a case."""
    (one,) = await all_scored(which, case, **parameters)
    return one


async def all_scored(which: str | Evaluator, case: Case, **parameters: Any) -> list[ScoreRecord]:
    """All that it says."""
    evaluator = built_in()[which] if isinstance(which, str) else which
    return await evaluator.bind(parameters, OfflineContext()).score(case)


async def verdict(which: str | Evaluator, case: Case, **parameters: Any) -> bool | str | None:
    """Has it passed? Of a skip or an error, its code."""
    one = await scored(which, case, **parameters)
    return one.passed if one.status == "scored" else one.reason.partition(":")[0]
