"""Connections declared in palaver.toml (`[connections.tutor]`)."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver.discovery.config import ConnectionSettings, declared_workflows, mask_connections, toml_lines
from palaver.errors import InvalidName, InvalidOption, PalaverError, SettingsError, UrlRefused
from palaver.server.settings import read_settings
from palaver.testing import client
from tests.frameworks.fake_servers import fake_server, full_response

FILE = """
allow_private_urls = true

[connections.tutor]
url = "https://a.example/tutor?key=hunter2"
headers = {authorization = "env:TUTOR_KEY", x-team = "hunter2"}
timeout_seconds = 5

[connections."a.b"]
url = "http://localhost:9000/v1"
dialect = "responses"
is_chat = true
model = "large"
"""


def test_connections_are_read_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "palaver.toml").write_text(FILE, encoding="utf-8")

    settings, sources = read_settings(env={"PALAVER_CONNECTIONS": "x"}, folder=tmp_path)

    assert (settings.allow_private_urls, sources["connections"]) == (True, "file")
    assert settings.connections == {
        "tutor": ConnectionSettings(
            url="https://a.example/tutor?key=hunter2",
            headers={"authorization": "env:TUTOR_KEY", "x-team": "hunter2"},
            timeout_seconds=5,
        ),
        "a.b": ConnectionSettings(url="http://localhost:9000/v1", dialect="responses", is_chat=True, model="large"),
    }


def test_connections_are_shown_without_secrets(tmp_path: Path) -> None:
    (tmp_path / "palaver.toml").write_text(FILE, encoding="utf-8")
    settings, _ = read_settings(env={}, folder=tmp_path)

    rendered = mask_connections(settings.connections)

    assert rendered["tutor"] == {
        "url": "https://a.example/tutor",
        "headers": {"authorization": "env:TUTOR_KEY", "x-team": "***"},
        "is_chat": None,
        "dialect": None,
        "model": None,
        "timeout_seconds": 5,
    }


@pytest.mark.parametrize(
    "text", ["[connections.tutor]\n", '[connections.tutor]\nurl = "x"\nheader = {}\n', 'connections = "x"\n']
)
def test_invalid_connections_in_the_file_are_rejected(tmp_path: Path, text: str) -> None:
    (tmp_path / "palaver.toml").write_text(text, encoding="utf-8")

    with pytest.raises(SettingsError, match=r"Invalid setting 'connections' in palaver\.toml: "):
        read_settings(env={}, folder=tmp_path)


@pytest.mark.parametrize(
    ("name", "connection", "error"),
    [
        ("tutor", ConnectionSettings(url="ftp://a.example"), UrlRefused),
        ("tutor", ConnectionSettings(url="http://ann:hunter2@a.example"), UrlRefused),
        ("a/b", ConnectionSettings(url="http://a.example"), InvalidName),
        ("tutor", ConnectionSettings(url="http://a.example", headers={"x": "hunter2\n"}), InvalidOption),
        ("tutor", ConnectionSettings(url="http://a.example", headers={"x": "env:NOT_THERE"}), SettingsError),
    ],
)
def test_unusable_connections_are_rejected_without_showing_secrets(
    name: str, connection: ConnectionSettings, error: type[PalaverError]
) -> None:
    with pytest.raises(error) as refused:
        declared_workflows({name: connection}, {})

    assert "hunter2" not in refused.value.message


def test_declaring_connections_sends_no_request() -> None:
    with fake_server(full_response({"flags": {"is_chat": True}})) as server:
        (created,) = declared_workflows(
            {"tutor": ConnectionSettings(url=f"{server.url}/x?key=hunter2", is_chat=True)}, {}
        )

    assert server.requests == []
    assert (created.reachable, created.checked_at, created.url) == (False, None, f"{server.url}/x")
    assert created.description.is_chat
    assert declared_workflows({}, {}) == []


async def test_a_header_from_an_environment_variable_is_sent_but_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("FAR_KEY", "Bearer hunter2")
    with fake_server(full_response({"flags": {"is_chat": True}, "role": "assistant", "content": "Hi"})) as server:
        connections = {"far": ConnectionSettings(url=f"{server.url}/app", headers={"authorization": "env:FAR_KEY"})}
        async with client(connections=connections) as http:
            answer = await http.post("/far/invoke", json={"messages": []})
            responses = [await http.get(path) for path in ("/far/inspect", "/api/workflows/far", "/api/connections")]

    assert answer.json()["content"] == "Hi"
    assert {call.headers["authorization"] for call in server.requests} == {"Bearer hunter2"}
    assert not any("hunter2" in response.text for response in responses)
    (row,) = responses[2].json()["data"]
    assert (row["name"], row["fixed"], row["declared_in"], row["state"]) == ("far", True, "settings", "ready")


@given(
    st.from_regex(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", fullmatch=True),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=40),
)
def test_generated_toml_lines_are_parsed_to_the_same_connection(name: str, path: str) -> None:
    parsed = tomllib.loads(toml_lines(name, f"https://a.example/{path}"))

    (connection,) = parsed["connections"].items()
    assert connection[0] == name
    assert connection[1]["url"] == f"https://a.example/{path}"
    assert connection[1]["headers"]["authorization"].startswith("env:")


def test_generated_toml_lines_name_a_variable_for_the_key() -> None:
    assert toml_lines("my-tutor", "https://a.example/tutor") == (
        '[connections.my-tutor]\nurl = "https://a.example/tutor"\nheaders = {authorization = "env:MY_TUTOR_KEY"}\n'
    )
