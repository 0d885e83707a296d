"""examples/approval.py: nothing is paid without an approval, and an approval is used once."""

from typing import Any

import httpx

from palaver.testing import client
from tests.examples.conftest import Example
from tests.examples.server_calls import create_response, invoke, stream_chat


def approval_response(call_id: str, *, approve: bool) -> list[dict[str, Any]]:
    return [{"type": "mcp_approval_response", "approval_request_id": call_id, "approve": approve}]


async def request_refund(http: httpx.AsyncClient) -> tuple[str, str]:
    """Request a refund; return the ids of the response and of the call that waits for approval."""
    response, items = await create_response(http, "refunds", "Pay 12.50 back")
    call_id = items[2][1]

    assert items == [
        ("message", "I need your approval for that."),
        ("unfinished call", "pay_back", '{"amount": 12.5}'),
        ("approval", call_id, "pay_back", '{"amount": 12.5}'),
    ]
    return response, call_id


async def test_an_approval_over_responses_pays_once(example: Example) -> None:
    async with client(*example("approval")) as http:
        response, call_id = await request_refund(http)
        yes = approval_response(call_id, approve=True)
        _, items = await create_response(http, "refunds", yes, previous_response_id=response)
        repeated = await http.post("/refunds/v1/responses", json={"input": yes, "previous_response_id": response})

    assert items == [("call", "pay_back", '{"amount": 12.5}', "12.50 refunded"), ("message", "Done.")]
    assert (repeated.status_code, repeated.json()["error"]["code"]) == (404, "approval_not_found")


async def test_a_denied_approval_pays_nothing(example: Example) -> None:
    async with client(*example("approval")) as http:
        response, call_id = await request_refund(http)
        no = approval_response(call_id, approve=False)
        _, items = await create_response(http, "refunds", no, previous_response_id=response)

    assert items == [
        ("failed call", "pay_back", '{"amount": 12.5}', "Rejected by the user."),
        ("message", "OK, nothing was refunded."),
    ]


async def test_an_approval_over_the_ui_stream_pays(example: Example) -> None:
    user_message = {"id": "m1", "role": "user", "parts": [{"type": "text", "text": "Pay 3 back"}]}
    async with client(*example("approval")) as http:
        first = await stream_chat(http, "refunds", user_message)
        [call_id] = [part["toolCallId"] for part in first if part["type"] == "tool-approval-request"]
        tool = {"type": "dynamic-tool", "toolName": "pay_back", "toolCallId": call_id, "input": {"amount": 3.0}}
        approved = {**tool, "state": "approval-responded", "approval": {"id": call_id, "approved": True}}
        second = await stream_chat(
            http, "refunds", user_message, {"id": "m2", "role": "assistant", "parts": [approved]}
        )

    assert first[-1] == {"type": "finish", "finishReason": "tool-calls"}
    assert [part for part in second if part["type"] in ("tool-output-available", "text-delta", "finish")] == [
        {
            "type": "tool-output-available",
            "toolCallId": call_id,
            "output": "3.00 refunded",
            "dynamic": True,
            "providerExecuted": True,
        },
        {"type": "text-delta", "id": second[-4]["id"], "delta": "Done."},
        {"type": "finish", "finishReason": "stop"},
    ]


async def test_an_approval_that_was_never_requested_is_rejected(example: Example) -> None:
    async with client(*example("approval")) as http:
        made_up = await http.post("/refunds/v1/responses", json={"input": approval_response("call_1", approve=True)})
        result = await invoke(http, "refunds", "Pay it back")

    assert (made_up.status_code, made_up.json()["error"]["code"]) == (404, "approval_not_found")
    assert result == {"role": "assistant", "content": "How much should I refund?"}
