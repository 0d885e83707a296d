"""The examples of docs/reference/protocols.md: each is a file here that runs on a real server, quoted verbatim."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance.node_drivers import HERE, NODE, assert_installed
from tests.server_process import ServerProcess

ROOT = HERE.parent.parent
SNIPPETS = sorted((HERE / "snippets").iterdir())
ANSWER = "What would it change if you had a holiday?"
EXPECTED_OUTPUT = {
    "ai_sdk_databricks.mjs": [ANSWER],
    "ai_sdk_openai.mjs": [ANSWER] * 2,
    "langchain_client.py": [ANSWER] * 2,
    "mlflow_client.py": [ANSWER],
    "openai_node.mjs": [ANSWER] * 3,
    "openai_python.py": [ANSWER] * 3,
    "use_chat.mjs": [ANSWER],
}
PROGRAMS = {".mjs": [str(NODE)], ".py": [sys.executable], ".sh": ["sh", "-e"]}

each_snippet = pytest.mark.parametrize("path", SNIPPETS, ids=[path.name for path in SNIPPETS])


@each_snippet
def test_a_snippet_runs_unchanged(path: Path, server: ServerProcess, tmp_path: Path) -> None:
    assert_installed()
    text = path.read_text("utf-8")
    assert "http://localhost:8642" in text
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")  # Node resolves packages from the file's folder.
    copy = tmp_path / path.name
    copy.write_text(text.replace("http://localhost:8642", server.url), encoding="utf-8")

    completed = subprocess.run(
        [*PROGRAMS[path.suffix], copy], capture_output=True, encoding="utf-8", timeout=60, check=False
    )

    assert completed.returncode == 0, completed.stderr
    if path.suffix == ".sh":
        first_output, streamed = re.split(r"(?=data: )", completed.stdout, maxsplit=1)
        assert f'"text":"{ANSWER}"' in first_output
        assert streamed.endswith("data: [DONE]\n\n")
    else:
        assert completed.stdout.splitlines() == EXPECTED_OUTPUT[path.name]


@each_snippet
def test_a_snippet_is_quoted_verbatim_in_the_docs(path: Path) -> None:
    page = (ROOT / "docs" / "reference" / "protocols.md").read_text("utf-8")
    blocks = re.findall(r"^```\w+\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)

    assert path.read_text("utf-8") in blocks
