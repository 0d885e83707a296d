"""`palaver eval` with evaluators that call a workflow of the same file, a provider or a web service."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from palaver.cli.main import cli
from tests.evaluation.fake_services import KEY, completion

APP = """
from palaver import Message, chat

@chat
async def tutor(messages: list[Message]) -> str:
    return messages[-1].text.upper()

@chat
async def court(messages: list[Message]) -> str:
    return '{"passed": true, "score": 1, "reason": "So it is."}'
"""


class ProviderHandler(BaseHTTPRequestHandler):
    """A model provider and a scoring webhook."""

    def do_POST(self) -> None:  # its name there
        self.rfile.read(int(self.headers["content-length"]))
        good = completion({"passed": True, "score": 0.5, "reason": ""}).body if self.path.startswith("/v1/") else 0.25
        assert self.path == "/score" or self.headers["authorization"] == f"Bearer {KEY}"
        body = msgspec.json.encode(good)
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # its name there
        pass


@pytest.fixture
def provider_url() -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), ProviderHandler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_configured_judges_and_webhooks_score_the_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, provider_url: str
) -> None:
    (tmp_path / "app.py").write_text(APP, encoding="utf-8")
    (tmp_path / "rows.csv").write_text("messages,expected\nhi,HI\n", encoding="utf-8")
    (tmp_path / "palaver.toml").write_text(
        f'[providers.openai]\nkind = "openai"\nbase_url = "{provider_url}/v1"\nkey = "env:OPENAI_API_KEY"\n',
        encoding="utf-8",
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    judges = [f'llm_judge:{{"judge": "{judge}", "prompt": "{{{{text}}}}"}}' for judge in ("court", "openai/m")]
    # Names tell two evaluators with one key apart.
    named_judges = [one.replace('"judge"', f'"name": "by {index}", "judge"') for index, one in enumerate(judges)]
    options = [f"--evaluator={one}" for one in (*named_judges, f'webhook:{{"url": "{provider_url}/score"}}')]

    result = CliRunner().invoke(cli, ["eval", "app.py:tutor", "rows.csv", *options, "--json"], standalone_mode=False)

    assert result.exception is None, result.output
    (variant,) = msgspec.json.decode(result.stdout)["variants"]
    assert [(one["name"], one["mean"], one["errors"]) for one in variant["evaluators"]] == [
        ("by 0", 1.0, 0),
        ("by 1", 0.5, 0),
        ("webhook", 0.25, 0),
    ]
    assert KEY not in result.output
