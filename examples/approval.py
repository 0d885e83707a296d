"""A tool call that needs approval: one run ends with the request, and the response starts the next run.

palaver serve examples/approval.py
"""

import json
import re
from collections.abc import Iterator
from uuid import uuid4

from palaver import Data, Failure, Message, ToolCall, ToolResult, chat

PENDING_CALLS: dict[str, ToolCall] = {}
"""Calls awaiting approval, never taken from the client. A real application stores them in a database."""


def pay_back(amount: float) -> str:
    """A stand-in for the bank."""
    return f"{amount:.2f} refunded"


@chat
def refunds(messages: list[Message]) -> Iterator[object]:
    """Refunds money after a person has approved it."""
    responses = [
        part.value for part in messages[-1].parts if isinstance(part, Data) and part.name == "approval-response"
    ]
    if not responses:
        yield from request_approval(messages[-1].text)
    for response in responses:
        yield from finish_call(response["id"], approved=response["approve"] is True)


def request_approval(text: str) -> Iterator[object]:
    """Yield the call and the approval request; the client shows both, with a way to approve or reject."""
    amount = re.search(r"\d+(\.\d+)?", text)
    if amount is None:
        yield "How much should I refund?"
        return
    call = ToolCall(call_id=f"call_{uuid4().hex}", name="pay_back", arguments=json.dumps({"amount": float(amount[0])}))
    question = {"id": call.call_id, "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
    PENDING_CALLS[call.call_id] = call
    yield "I need your approval for that."
    yield call
    yield Data(name="approval-request", value=question)


def finish_call(call_id: str, *, approved: bool) -> Iterator[object]:
    """Yield the result of an approved call, or its rejection. Each call can be answered once."""
    call = PENDING_CALLS.pop(call_id, None)
    if call is None:
        raise Failure("approval_not_found", "No refund with this id is awaiting approval.", status=404)
    if approved:
        yield ToolResult(call_id=call_id, output=pay_back(**call.parsed))
        yield "Done."
    else:
        yield ToolResult(call_id=call_id, output="Rejected by the user.", is_error=True)
        yield "OK, nothing was refunded."
