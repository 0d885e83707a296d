"""Calls, replies, and secrets that are never shown."""

import msgspec
import pytest
from msgspec import UNSET

from palaver.core import json
from palaver.core.messages import Message, Usage
from palaver.core.runs import Call, Reply, Secret


def test_a_secret_is_shown_only_by_reveal() -> None:
    secret = Secret("hunter2")
    call = Call(workflow="tutor", secrets={"OPENAI_API_KEY": secret})

    assert secret.reveal() == "hunter2"
    assert [str(secret), repr(secret), f"{secret}"] == ["***", "***", "***"]
    assert "hunter2" not in repr(call)
    assert secret != Secret("hunter2")


def test_a_secret_cannot_be_encoded() -> None:
    with pytest.raises(TypeError):
        msgspec.json.encode(Call(workflow="tutor", secrets={"KEY": Secret("hunter2")}))
    with pytest.raises(json.NotJson) as caught:
        json.to_builtins({"key": Secret("hunter2")})

    assert str(caught.value) == "a value of type dict that is not JSON-serializable (unsupported type Secret)"


@pytest.mark.parametrize(
    ("reply", "wire"),
    [
        (Reply(run_id="run_r", finish="stop"), b'{"run_id":"run_r","finish":"stop"}'),
        (Reply(run_id="run_r", finish="stop", value=None), b'{"run_id":"run_r","value":null,"finish":"stop"}'),
        (
            Reply(
                run_id="run_r",
                messages=(Message.assistant("a"),),
                usage=Usage(input_tokens=1, output_tokens=2),
                finish="length",
            ),
            (
                b'{"run_id":"run_r","messages":[{"role":"assistant","parts":[{"type":"text","text":"a"}]}],'
                b'"usage":{"input_tokens":1,"output_tokens":2},"finish":"length"}'
            ),
        ),
    ],
)
def test_a_reply_round_trips_through_json_and_null_is_a_value(reply: Reply, wire: bytes) -> None:
    assert msgspec.json.encode(reply) == wire
    assert msgspec.json.decode(wire, type=Reply) == reply


def test_defaults_of_calls_and_replies() -> None:
    call = Call(workflow="tutor")

    assert (call.messages, call.inputs, call.session, call.record) == ((), {}, None, "full")
    assert Reply(run_id="run_r", finish="stop").value is UNSET
