"""Interrupts of a graph as approval requests, and approvals as what resumes the graph.

Only what the checkpointer says is pending: an approval of anything else is rejected.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from palaver.core import json
from palaver.core.dialects.common import as_list, dict_or_empty, optional_str
from palaver.core.messages import APPROVAL_REQUEST, APPROVAL_RESPONSE, Data, Message, ToolCall
from palaver.errors import Failure
from palaver.frameworks.langchain.messages import MessageCall, to_json_text, to_json_value


class Interrupt(NamedTuple):
    """The questions of one interrupt: one per action, or one about its value."""

    interrupt: str
    questions: Sequence[dict[str, Any]]
    by_action: bool

    def answer(self, answers: Mapping[str, Mapping[str, Any]]) -> Any:
        """Return what resumes the graph."""
        if not self.by_action:
            return answers[self.questions[0]["id"]]["approve"]
        return {"decisions": [_decision(answers[question["id"]]) for question in self.questions]}


def parse_interrupts(interrupts: Sequence[Any], pending: Sequence[MessageCall]) -> list[Interrupt]:
    """Parse interrupts. An action belongs to the first pending call with its name and arguments."""
    free = list(pending)
    return [_parse_interrupt(interrupt, free) for interrupt in interrupts]


def approval_requests(questions: Sequence[Interrupt]) -> Iterator[Data]:
    for each in questions:
        for question in each.questions:
            yield Data(name=APPROVAL_REQUEST, value=question)


def approval_answers(messages: Sequence[Message]) -> dict[str, Mapping[str, Any]]:
    """Return the approvals at the end of a call, by id."""
    parts = [part for message in messages for part in message.parts]
    values = [dict_or_empty(part.value) for part in parts if isinstance(part, Data) and part.name == APPROVAL_RESPONSE]
    return {
        each["id"]: each for each in values if isinstance(each.get("id"), str) and type(each.get("approve")) is bool
    }


def resume_value(questions: Sequence[Interrupt], answers: Mapping[str, Mapping[str, Any]]) -> Any:
    """Return what `Command(resume=…)` takes. Raises Failure unless exactly the pending questions are answered."""
    known = [question["id"] for each in questions for question in each.questions]
    if unknown := [name for name in answers if name not in known]:
        raise Failure("approval_not_found", f"Nothing here waits for an approval of {unknown[0][:80]!r}.", status=404)
    if missing := [name for name in known if name not in answers]:
        listing = ", ".join(missing)
        raise Failure("approval_pending", f"These approvals are not answered yet: {listing}.", status=400)
    if len(questions) == 1:
        return questions[0].answer(answers)
    return {each.interrupt: each.answer(answers) for each in questions}


def check_arguments_unchanged(questions: Sequence[Interrupt], seen: Mapping[str, ToolCall]) -> None:
    """Raise Failure if the user has seen other arguments than those of the pending call."""
    for question in (question for each in questions for question in each.questions):
        call = seen.get(question["call_id"])
        if call is not None and call.parsed != json.parse_or_text(question["arguments"]):
            what = f"The call {call.call_id!r} that waits for approval has other arguments than the one approved."
            raise Failure("stale_base", what, status=409)


def _parse_interrupt(interrupt: Any, free: list[MessageCall]) -> Interrupt:
    value = dict_or_empty(interrupt.value)
    actions = [dict_or_empty(action) for action in as_list(value.get("action_requests"))]
    if not actions:
        question = _question(
            interrupt.id, f"int_{interrupt.id}", name="interrupt", value=interrupt.value, message=interrupt.value
        )
        return Interrupt(interrupt.id, [question], by_action=False)
    reviews = [dict_or_empty(review) for review in as_list(value.get("review_configs"))]
    decisions = {review.get("action_name"): as_list(review.get("allowed_decisions")) for review in reviews}
    questions: list[dict[str, Any]] = []
    for number, action in enumerate(actions, 1):
        name, arguments = str(action.get("name")), action.get("args", action.get("arguments"))
        call = next((c for c in free if c.name == name and _same_arguments(c.arguments, arguments)), None)
        if call is not None:
            free.remove(call)
        question = _question(
            interrupt.id,
            call.call_id if call else f"int_{interrupt.id}.{number}",
            name=name,
            value=arguments,
            message=action.get("description"),
        )
        question |= {
            "call_id": call.call_id if call else None,
            "decisions": decisions.get(name) or question["decisions"],
        }
        questions.append(question)
    return Interrupt(interrupt.id, questions, by_action=True)


def _question(interrupt: str, own_id: str, *, name: str, value: Any, message: Any) -> dict[str, Any]:
    return {
        "id": own_id,
        "call_id": None,
        "name": name,
        "arguments": to_json_text(value),
        "message": optional_str(message),
        "decisions": ["approve", "reject"],
        "interrupt": interrupt,
    }


def _same_arguments(text: str, arguments: Any) -> bool:
    return json.parse_or_text(text) == to_json_value(arguments)


def _decision(answer: Mapping[str, Any]) -> dict[str, Any]:
    if answer["approve"]:
        return {"type": "approve"}
    reason = optional_str(answer.get("reason"))
    return {"type": "reject", "message": reason} if reason else {"type": "reject"}
