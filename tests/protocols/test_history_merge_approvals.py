"""Which approvals are accepted in a stored conversation."""

from typing import Any

import pytest

from palaver.core.messages import APPROVAL_REQUEST, APPROVAL_RESPONSE, Data, Message, Text, ToolCall, ToolResult
from palaver.errors import ApprovalNotFound, PalaverError, StaleBase
from palaver.protocols.history_merge import PendingApprovals


def approval_request(name: str = "q1", call_id: str | None = "c1", arguments: Any = '{"n": 1}') -> Message:
    """A tool call and its approval request."""
    value = {"id": name, "call_id": call_id, "name": "pay", "arguments": arguments}
    call = [ToolCall(call_id, "pay", '{"n": 1}')] if call_id else []
    return Message(role="assistant", parts=(*call, Data(APPROVAL_REQUEST, value)))


def approval_response(name: Any, approve: bool = True) -> Message:
    return Message(role="user", parts=(Data(APPROVAL_RESPONSE, {"id": name, "approve": approve}),))


def repeated_call(arguments: str, name: str = "c1") -> Message:
    return Message(role="assistant", parts=(ToolCall(name, "pay", arguments),))


TOOL_RESULT = Message(role="tool", parts=(ToolResult("c1", "paid"),))
ANSWER = Message(role="assistant", parts=(Text("Paid."),))

CASES: list[tuple[list[Message], list[Message], type[PalaverError] | None]] = [
    ([], [approval_response("q1")], ApprovalNotFound),
    ([approval_request()], [approval_response("q1")], None),
    ([approval_request()], [approval_response("c1")], None),
    ([approval_request()], [approval_response("q1"), approval_response("q1", approve=False)], ApprovalNotFound),
    ([approval_request()], [approval_response("q1"), approval_response("c1")], ApprovalNotFound),
    ([approval_request(), TOOL_RESULT], [approval_response("q1")], ApprovalNotFound),
    ([approval_request(), TOOL_RESULT], [approval_response("c1")], ApprovalNotFound),
    ([approval_request(call_id=None)], [approval_response("q1")], None),
    ([approval_request(arguments={"n": 1})], [approval_response("c1")], None),
    ([approval_request(), approval_response("q1")], [approval_response("q1")], None),
    ([approval_request(), approval_response("q1")], [approval_response("q1", approve=False)], ApprovalNotFound),
    ([approval_request(), approval_response("q1"), ANSWER], [approval_response("q1")], ApprovalNotFound),
    ([approval_request(), approval_response("q1"), TOOL_RESULT, approval_request()], [approval_response("q1")], None),
    ([approval_request()], [repeated_call('{"n":1}'), approval_response("q1")], None),
    ([approval_request()], [repeated_call('{"n": 2}'), approval_response("q1")], StaleBase),
    ([approval_request()], [repeated_call('{"n": 2}'), approval_response("c1")], StaleBase),
    ([approval_request()], [approval_request(arguments='{"n": 2}'), approval_response("q1")], StaleBase),
    ([approval_request()], [repeated_call('{"n": 2}')], None),
    ([approval_request()], [repeated_call("", "other"), approval_response("q1")], None),
    ([approval_request()], [approval_response(None)], ApprovalNotFound),
    ([approval_request()], [Message(role="user", parts=(Data(APPROVAL_RESPONSE, "q1"),))], ApprovalNotFound),
]


@pytest.mark.parametrize(("stored", "sent", "error"), CASES)
def test_approval_is_accepted_only_for_a_pending_request(
    stored: list[Message], sent: list[Message], error: type[PalaverError] | None
) -> None:
    pending = PendingApprovals(stored)
    if error is None:
        pending.check(sent)
    else:
        with pytest.raises(error):
            pending.check(sent)


def test_approval_repeated_before_an_answer_is_a_copy() -> None:
    pending = PendingApprovals([approval_request(), approval_response("q1")])

    assert pending.is_copy(Data(APPROVAL_RESPONSE, {"id": "q1", "approve": True}))
    assert not pending.is_copy(Data(APPROVAL_RESPONSE, {"id": "q1", "approve": False}))
    assert not pending.is_copy(Data(APPROVAL_RESPONSE, None))
