"""Message envelopes of a tab's WebSocket: decoding and encoding."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.errors import InvalidValue, MisplacedField
from palaver.server.tab_socket import envelopes
from palaver.server.tab_socket.envelopes import MalformedRequest, SocketRequest, decode_request, http_scope
from palaver.storage.notifications import Change

WEBSOCKET_SCOPE: dict[str, Any] = {
    "type": "websocket",
    "asgi": {"version": "3.0"},
    "scheme": "wss",
    "headers": [
        (b"host", b"palaver.example"),
        (b"origin", b"https://palaver.example"),
        (b"cookie", b"__Host-palaver=abc"),
        (b"connection", b"Upgrade"),
        (b"sec-websocket-key", b"x"),
        (b"user-agent", b"a browser"),
    ],
    "server": ("127.0.0.1", 8642),
    "client": ("10.0.0.1", 5),
}


def test_a_socket_request_becomes_an_ordinary_http_scope() -> None:
    request = decode_request(
        '{"id": 7, "method": "POST", "path": "/a%C3%A4?b=c", "headers": {"X-One": " 1 "}, "body": "{}", "new": [1]}'
    )

    assert request == SocketRequest(7, "POST", "/a%C3%A4?b=c", {"X-One": " 1 "}, "{}")
    assert http_scope(request, b"{}", WEBSOCKET_SCOPE) == {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "https",
        "path": "/aä",
        "raw_path": b"/a%C3%A4",
        "query_string": b"b=c",
        "root_path": "",
        "headers": [
            (b"host", b"palaver.example"),
            (b"origin", b"https://palaver.example"),
            (b"cookie", b"__Host-palaver=abc"),
            (b"user-agent", b"a browser"),
            (b"x-one", b"1"),
            (b"content-length", b"2"),
        ],
        "server": ("127.0.0.1", 8642),
        "client": ("10.0.0.1", 5),
    }


@pytest.mark.parametrize(
    "name",
    "authorization cookie host origin x-api-key api-key Authorization HOST content-length transfer-encoding connection"
    " upgrade expect sec-fetch-site Sec-WebSocket-Key proxy-authorization x-forwarded-for X-Forwarded-Host forwarded"
    " te user-agent".split(),
)
def test_credential_and_connection_headers_of_a_socket_request_are_ignored(name: str) -> None:
    plain = http_scope(SocketRequest(1, path="/x"), None, WEBSOCKET_SCOPE)

    assert http_scope(SocketRequest(1, path="/x", headers={name: "evil"}), None, WEBSOCKET_SCOPE) == plain


@pytest.mark.parametrize("name", ["", "a b", "a:b", "ä", "a\n", "x" * 257])
def test_an_invalid_header_name_is_rejected(name: str) -> None:
    with pytest.raises(InvalidValue):
        http_scope(SocketRequest(1, path="/x", headers={name: "1"}), None, WEBSOCKET_SCOPE)


@pytest.mark.parametrize("value", ["a\r\nb: c", "a\nb", "\x00", "\x7f", "€"])
def test_an_invalid_header_value_is_rejected(value: str) -> None:
    with pytest.raises(InvalidValue):
        http_scope(SocketRequest(1, path="/x", headers={"x-one": value}), None, WEBSOCKET_SCOPE)


@pytest.mark.parametrize("path", ["", "x", "http://elsewhere/", "/a b", "/ä", "/a#b", "/a\n", "/\x00", "*"])
def test_an_absolute_url_or_invalid_path_is_rejected(path: str) -> None:
    with pytest.raises(InvalidValue):
        http_scope(SocketRequest(1, path=path), None, WEBSOCKET_SCOPE)


@pytest.mark.parametrize("method", ["", "get", "GET ", "GET\r\n", "G" * 17, "GÊT"])
def test_an_invalid_method_is_rejected(method: str) -> None:
    with pytest.raises(InvalidValue):
        http_scope(SocketRequest(1, method=method, path="/"), None, WEBSOCKET_SCOPE)


@pytest.mark.parametrize("prefix", ["", "/base"])
@pytest.mark.parametrize(
    "path", ["/api/session", "/api/session/", "/api/files", "/api/files/file_1?meta=true", "/assets/a.js"]
)
def test_session_file_and_asset_routes_are_rejected_on_the_socket(prefix: str, path: str) -> None:
    with pytest.raises(MisplacedField):
        http_scope(SocketRequest(1, path=prefix + path), None, WEBSOCKET_SCOPE, root_path=prefix)


def test_a_route_that_only_shares_a_prefix_is_allowed_on_the_socket() -> None:
    assert http_scope(SocketRequest(1, path="/api/sessions/x"), None, WEBSOCKET_SCOPE)["path"] == "/api/sessions/x"


@pytest.mark.parametrize(
    ("text", "number", "code"),
    [
        ("", None, "invalid_json"),
        ("nope", None, "invalid_json"),
        ("[" * 100_000, None, "invalid_value"),
        ('{"id": 1, "x": ' + "[" * 100_000, None, "invalid_json"),
        ('{"id": 1, "path": "\\ud800"}', None, "invalid_json"),
        ("[]", None, "invalid_value"),
        ("7", None, "invalid_value"),
        ("{}", None, "invalid_value"),
        ('{"path": "/"}', None, "invalid_value"),
        ('{"id": "7", "path": "/"}', None, "invalid_value"),
        ('{"id": -1, "path": "/"}', None, "invalid_value"),
        ('{"id": 9007199254740992, "path": "/"}', None, "invalid_value"),
        ('{"id": 7, "path": 5}', 7, "invalid_value"),
        ('{"id": 7, "path": "/", "body": {}}', 7, "invalid_value"),
        ('{"id": 7, "path": "/", "headers": {"a": 1}}', 7, "invalid_value"),
        ('{"id": 7, "abort": "yes"}', 7, "invalid_value"),
    ],
)
def test_a_malformed_request_raises_an_error_with_its_id_and_code(text: str, number: int | None, code: str) -> None:
    with pytest.raises(MalformedRequest) as problem:
        decode_request(text)

    assert (problem.value.id, problem.value.error.code) == (number, code)


@given(st.text())
def test_any_text_decodes_to_a_request_or_raises_malformed_request(text: str) -> None:
    try:
        request = decode_request(text)
    except MalformedRequest:
        return
    assert isinstance(request, SocketRequest)


def test_messages_to_the_tab_are_encoded_as_json() -> None:
    headers = [(b"Content-Type", b"text/plain"), (b"set-cookie", b"a=b"), (b"link", b"</a>"), (b"link", b"</b>")]

    messages = [
        envelopes.encode_start(7, 200, headers),
        envelopes.encode_data(7, 'Grüße "x"\n'),
        envelopes.encode_end(7),
        envelopes.encode_error(None, "invalid_json", "No."),
        envelopes.encode_change(Change("default", "thread", "conv_1", "run_1")),
        envelopes.encode_change(Change("default", "workflow", "tutor")),
    ]

    assert [msgspec.json.decode(one) for one in messages] == [
        {"id": 7, "status": 200, "headers": {"content-type": "text/plain", "link": "</a>, </b>"}},
        {"id": 7, "data": 'Grüße "x"\n'},
        {"id": 7, "end": True},
        {"id": None, "error": {"code": "invalid_json", "message": "No."}},
        {"changed": "thread", "ref": "conv_1", "run": "run_1"},
        {"changed": "workflow", "ref": "tutor"},
    ]
