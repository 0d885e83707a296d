"""Make cases, and score them with an evaluator."""

from typing import Any

from msgspec import UNSET

from palaver.evaluation.case import Case
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.evaluators import built_in
from palaver.evaluation.network_context import OfflineContext
from palaver.evaluation.runner.manual_case import read_manual_case
from palaver.evaluation.score import ScoreRecord


def answer(output: Any = UNSET, *, is_chat: bool = True, **fields: Any) -> Case:
    """The case of an answer; `expected`, `inputs`, `row`, `usage` … by keyword."""
    arguments = {} if output is UNSET else {"output": output}
    return read_manual_case({**arguments, "flags": {"is_chat": is_chat}, **fields})


async def score_case(which: str | Evaluator, case: Case, **parameters: Any) -> ScoreRecord:
    """The only score of a case."""
    (record,) = await score_records(which, case, **parameters)
    return record


async def score_records(which: str | Evaluator, case: Case, **parameters: Any) -> list[ScoreRecord]:
    evaluator = built_in()[which] if isinstance(which, str) else which
    return await evaluator.bind(parameters, OfflineContext()).score(case)


async def verdict(which: str | Evaluator, case: Case, **parameters: Any) -> bool | str | None:
    """Whether the case passed; the code of a skip or an error."""
    record = await score_case(which, case, **parameters)
    return record.passed if record.status == "scored" else record.reason.partition(":")[0]
