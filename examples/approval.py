"""A tool call that waits for a person: one run ends with the question, and the answer begins the run that goes on.

palaver serve examples/approval.py
"""

import json
import re
from collections.abc import Iterator
from uuid import uuid4

from palaver import Data, Failure, Message, ToolCall, ToolResult, chat

WAITING: dict[str, ToolCall] = {}
"""What waits is what was kept here, never what a client says waits. A real application keeps it in a database."""


def pay_back(amount: float) -> str:
    """Stands for the bank."""
    return f"{amount:.2f} paid back"


@chat
def refunds(messages: list[Message]) -> Iterator[object]:
    """Pays money back, once a person has said yes."""
    answers = [part.value for part in messages[-1].parts if isinstance(part, Data) and part.name == "approval-response"]
    if not answers:
        yield from ask(messages[-1].text)
    for answer in answers:
        yield from go_on(answer["id"], approved=answer["approve"] is True)


def ask(wish: str) -> Iterator[object]:
    """The call, and the question whether it may be made; the client shows both, and a way to say yes or no."""
    amount = re.search(r"\d+(\.\d+)?", wish)
    if amount is None:
        yield "How much shall I pay back?"
        return
    call = ToolCall(call_id=f"call_{uuid4().hex}", name="pay_back", arguments=json.dumps({"amount": float(amount[0])}))
    question = {"id": call.call_id, "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
    WAITING[call.call_id] = call
    yield "I need your word for that."
    yield call
    yield Data(name="approval-request", value=question)


def go_on(call_id: str, *, approved: bool) -> Iterator[object]:
    """What comes of the call: its result, or that nobody wanted it. An answer counts once."""
    call = WAITING.pop(call_id, None)
    if call is None:
        raise Failure("approval_not_found", "No payment of that name waits for an approval.", status=404)
    if approved:
        yield ToolResult(call_id=call_id, output=pay_back(**call.parsed))
        yield "It is done."
    else:
        yield ToolResult(call_id=call_id, output="The person said no.", is_error=True)
        yield "I left it alone."
