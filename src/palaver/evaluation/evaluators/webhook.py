"""webhook: a service of somebody's is sent the case, and says what it thinks of it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.evaluator import evaluator
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Skip


def _check(parameters: Any, reach: Reach) -> None:
    reach.check_post(parameters.url, parameters.secret, "/parameters/secret")


@evaluator(check=_check)
async def webhook(
    case: Case,
    aim: Aim,
    reach: Reach,
    *,
    url: Annotated[str, Meta(min_length=1, max_length=2_000, description="Where the case is posted.")],
    secret: Annotated[str | None, Meta(description="env:PALAVER_WEBHOOK_…, the variable that holds it.")] = None,
    timeout: Annotated[float, Meta(gt=0, le=30, description="Seconds.")] = 10,  # noqa: ASYNC109  # of the request
    body: Annotated[Literal["case", "agenta"], Meta(description="The whole case, or as Agenta sends it.")] = "case",
) -> Any:
    """What a service answers that the case is posted to: anything that an evaluator of one's own may return.

    With a secret the body is signed: `palaver-signature: sha256=` and its HMAC-SHA256. Private addresses are refused
    unless the operator allows them.
    """
    sent = _case(case) if body == "case" else _as_agenta(case, aim)
    answer = await reach.post(url, sent, secret=secret, seconds=timeout)
    return _from_agenta(answer) if body == "agenta" else answer


def _case(case: Case) -> dict[str, Any]:
    fields = {name: value for name, value in msgspec.structs.asdict(case).items() if name not in ("script", "events")}
    turns = [msgspec.structs.asdict(turn) | {"notes": sorted(turn.notes), "verdict": UNSET} for turn in case.turns]
    fields |= {"notes": sorted(case.notes), "turns": [_present(turn) for turn in turns]}
    return msgspec.to_builtins(_present(fields))


def _present(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not UNSET}


def _as_agenta(case: Case, aim: Aim) -> dict[str, Any]:
    try:
        expected = aim.expected(case)
    except Skip:
        expected = None
    output = aim.raw(case)
    return {
        "inputs": case.inputs,
        "output": None if output is UNSET else msgspec.to_builtins(output),
        "correct_answer": expected,
    }


def _from_agenta(answer: Any) -> Any:
    """There `success` says what `passed` says here."""
    if not isinstance(answer, dict) or "success" not in answer:
        return cast("Any", answer)
    told = cast("Mapping[str, Any]", answer)
    return {"passed" if key == "success" else key: value for key, value in told.items()}
