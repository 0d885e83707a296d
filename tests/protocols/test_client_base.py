"""Calls to other servers: forwarded headers, bodies, and error documents."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.core.runs import Call
from palaver.errors import UpstreamFailed
from palaver.protocols import client_base


def test_only_the_session_and_the_trace_parent_are_forwarded() -> None:
    assert client_base.request_headers(Call(workflow="x"), accept="*/*") == {
        "content-type": "application/json",
        "accept": "*/*",
    }
    assert client_base.request_headers(
        Call(workflow="x", session="a b,é;=\r\n", trace_parent="00-t"), accept="a/b"
    ) == {
        "content-type": "application/json",
        "accept": "a/b",
        "baggage": "ag.session.id=a%20b%2C%C3%A9%3B%3D%0D%0A",
        "traceparent": "00-t",
    }


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"status":{"code":422,"message":"A"}}', "A"),
        (b'{"error":{"message":"B"}}', "B"),
        (b'{"error":"C"}', "C"),
        (b'{"detail":"D"}', "D"),
        (b'{"detail":{"message":"E"}}', "E"),
        (b'{"detail":[{"msg":"F"},{"msg":"G"}]}', "F"),
        (b'{"message":"H"}', "H"),
        (b'{"detail":[]}', None),
        (b'{"status":500}', None),
        (b"<html>", None),
        (b"\xff", None),
        (b"", None),
    ],
)
def test_error_message_is_found_in_common_error_documents(body: bytes, message: str | None) -> None:
    assert client_base.error_message(body) == message


@given(content_type=st.sampled_from(["application/json", "text/plain", "", "text/html"]), body=st.binary())
def test_any_body_is_decoded_or_raises_upstream_failed(content_type: str, body: bytes) -> None:
    client_base.error_message(body)
    with suppress(UpstreamFailed):
        client_base.decode_body(content_type, body)
