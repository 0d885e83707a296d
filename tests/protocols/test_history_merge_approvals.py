"""Which approvals are accepted in a stored conversation."""

from typing import Any

import pytest

from palaver.core.messages import APPROVAL_REQUEST, APPROVAL_RESPONSE, Data, Message, Text, ToolCall, ToolResult
from palaver.errors import ApprovalNotFound, PalaverError, StaleBase
from palaver.protocols.history_merge import PendingApprovals


def asked(name: str = "q1", call_id: str | None = "c1", arguments: Any = '{"n": 1}') -> Message:
    """A tool call and its approval request."""
    value = {"id": name, "call_id": call_id, "name": "pay", "arguments": arguments}
    call = [ToolCall(call_id, "pay", '{"n": 1}')] if call_id else []
    return Message(role="assistant", parts=(*call, Data(APPROVAL_REQUEST, value)))


def given(name: Any, approve: bool = True) -> Message:
    return Message(role="user", parts=(Data(APPROVAL_RESPONSE, {"id": name, "approve": approve}),))


def shown(arguments: str, name: str = "c1") -> Message:
    return Message(role="assistant", parts=(ToolCall(name, "pay", arguments),))


RETURNED = Message(role="tool", parts=(ToolResult("c1", "paid"),))
SAID = Message(role="assistant", parts=(Text("Paid."),))

CASES: list[tuple[list[Message], list[Message], type[PalaverError] | None]] = [
    ([], [given("q1")], ApprovalNotFound),
    ([asked()], [given("q1")], None),
    ([asked()], [given("c1")], None),
    ([asked()], [given("q1"), given("q1", approve=False)], ApprovalNotFound),
    ([asked()], [given("q1"), given("c1")], ApprovalNotFound),
    ([asked(), RETURNED], [given("q1")], ApprovalNotFound),
    ([asked(), RETURNED], [given("c1")], ApprovalNotFound),
    ([asked(call_id=None)], [given("q1")], None),
    ([asked(arguments={"n": 1})], [given("c1")], None),
    ([asked(), given("q1")], [given("q1")], None),
    ([asked(), given("q1")], [given("q1", approve=False)], ApprovalNotFound),
    ([asked(), given("q1"), SAID], [given("q1")], ApprovalNotFound),
    ([asked(), given("q1"), RETURNED, asked()], [given("q1")], None),
    ([asked()], [shown('{"n":1}'), given("q1")], None),
    ([asked()], [shown('{"n": 2}'), given("q1")], StaleBase),
    ([asked()], [shown('{"n": 2}'), given("c1")], StaleBase),
    ([asked()], [asked(arguments='{"n": 2}'), given("q1")], StaleBase),
    ([asked()], [shown('{"n": 2}')], None),
    ([asked()], [shown("", "other"), given("q1")], None),
    ([asked()], [given(None)], ApprovalNotFound),
    ([asked()], [Message(role="user", parts=(Data(APPROVAL_RESPONSE, "q1"),))], ApprovalNotFound),
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
    pending = PendingApprovals([asked(), given("q1")])

    assert pending.is_copy(Data(APPROVAL_RESPONSE, {"id": "q1", "approve": True}))
    assert not pending.is_copy(Data(APPROVAL_RESPONSE, {"id": "q1", "approve": False}))
    assert not pending.is_copy(Data(APPROVAL_RESPONSE, None))
