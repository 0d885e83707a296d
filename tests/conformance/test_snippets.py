"""The examples of docs/protocols.md: each is a file here that runs against a real server and is quoted verbatim."""

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
def test_it_runs_as_it_stands(path: Path, server: ServerProcess, tmp_path: Path) -> None:
    assert_installed()
    text = path.read_text("utf-8")
    assert "http://localhost:8642" in text
    (tmp_path / "node_modules").symlink_to(HERE / "node_modules")  # Node looks for packages from where the file is.
    copy = tmp_path / path.name
    copy.write_text(text.replace("http://localhost:8642", server.url), encoding="utf-8")

    ran = subprocess.run([*PROGRAMS[path.suffix], copy], capture_output=True, encoding="utf-8", timeout=60, check=False)

    assert ran.returncode == 0, ran.stderr
    if path.suffix == ".sh":
        first_output, streamed = re.split(r"(?=data: )", ran.stdout, maxsplit=1)
        assert f'"text":"{ANSWER}"' in first_output
        assert streamed.endswith("data: [DONE]\n\n")
    else:
        assert ran.stdout.splitlines() == EXPECTED_OUTPUT[path.name]


@each_snippet
def test_it_stands_in_the_docs_word_for_word(path: Path) -> None:
    page = (ROOT / "docs" / "protocols.md").read_text("utf-8")
    blocks = re.findall(r"^```\w+\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)

    assert path.read_text("utf-8") in blocks
