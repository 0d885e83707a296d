"""webhook: send the case to a service that scores it."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, cast

import msgspec
from msgspec import UNSET, Meta

from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.score import Skip
from palaver.evaluation.target import Target


def _check_webhook(parameters: Any, context: EvaluatorContext) -> None:
    context.check_post(parameters.url, parameters.secret, "/parameters/secret")


@evaluator(check=_check_webhook)
async def webhook(
    case: Case,
    target: Target,
    context: EvaluatorContext,
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
    sent = _encode_case(case) if body == "case" else _encode_for_agenta(case, target)
    answer = await context.post(url, sent, secret=secret, seconds=timeout)
    return _decode_from_agenta(answer) if body == "agenta" else answer


def _encode_case(case: Case) -> dict[str, Any]:
    fields = {name: value for name, value in msgspec.structs.asdict(case).items() if name not in ("script", "events")}
    turns = [msgspec.structs.asdict(turn) | {"notes": sorted(turn.notes), "verdict": UNSET} for turn in case.turns]
    fields |= {"notes": sorted(case.notes), "turns": [_present_fields(turn) for turn in turns]}
    return msgspec.to_builtins(_present_fields(fields))


def _present_fields(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not UNSET}


def _encode_for_agenta(case: Case, target: Target) -> dict[str, Any]:
    try:
        expected = target.expected(case)
    except Skip:
        expected = None
    output = target.raw(case)
    return {
        "inputs": case.inputs,
        "output": None if output is UNSET else msgspec.to_builtins(output),
        "correct_answer": expected,
    }


def _decode_from_agenta(answer: Any) -> Any:
    """Agenta's `success` is our `passed`."""
    if not isinstance(answer, dict) or "success" not in answer:
        return cast("Any", answer)
    fields = cast("Mapping[str, Any]", answer)
    return {"passed" if key == "success" else key: value for key, value in fields.items()}
