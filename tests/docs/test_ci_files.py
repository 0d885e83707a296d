"""The CI files of docs/guides/compare-prompts-in-ci.md work: their jobs are run on a pull request in a git repository.

Their actions and images, and the hosts of GitHub and GitLab, are replaced; every command of a step is run.
"""

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import msgspec
import pytest

from tests.docs.pages import pages_with
from tests.docs.walkthrough import Reader

PAGE = "guides/compare-prompts-in-ci.md"
COMMITTED = ["prompt.md", "shop.py", "questions.csv", "requirements.txt", ".github", ".gitlab-ci.yml"]
WORSE_PROMPT = "- open: Monday to Saturday, 9:00 to 18:00\n- rent: 20 euros a day\n"
EXPRESSIONS = {
    "secrets.OPENAI_API_KEY": "none",
    "github.token": "token",
    "github.event.pull_request.number": "7",
}
GH = r"""#!/bin/bash
# Keeps the comments of pull request 7 in a file.
set -eu
touch "$COMMENTS"
case "$*" in
"api --paginate repos/you/shop/issues/7/comments --jq "*)
    jq -s . "$COMMENTS" | jq -r "$5" ;;
"pr comment 7 --body-file comment.md")
    jq -n --rawfile body comment.md '{id: 41, $body}' >>"$COMMENTS" ;;
"api --silent --method PATCH repos/you/shop/issues/comments/41 -F body=@comment.md")
    jq -n --rawfile body comment.md '{id: 41, $body}' >"$COMMENTS" ;;
*)
    echo "unexpected: gh $*" >&2; exit 2 ;;
esac
"""


class Step(msgspec.Struct, frozen=True):
    """A step of a job on GitHub."""

    name: str = ""
    uses: str = ""
    run: str = ""
    condition: str = msgspec.field(name="if", default="")
    env: dict[str, str] = {}
    parameters: dict[str, Any] = msgspec.field(name="with", default={})


@dataclass(kw_only=True)
class Result:
    """What a job did."""

    output: str = ""
    failed: list[str] = field(default_factory=list[str])
    artifacts: list[str] = field(default_factory=list[str])


class Project:
    """The application of the page in a git repository, with a main branch and pull requests."""

    def __init__(self, origin: Path, runner: Path, model_url: str) -> None:
        self.origin = origin
        self.runner = runner
        self.environment = {
            "HOME": str(runner),
            "PATH": f"{runner}/bin:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "LC_ALL": "C.UTF-8",
            "OPENAI_BASE_URL": model_url,
        }
        self._add_program("pip", '#!/bin/bash\n[ "$*" = "install -r requirements.txt" ] && [ -f requirements.txt ]\n')
        self._git("init", "--quiet", "--initial-branch=main")
        self._git("add", *COMMITTED)
        self._commit("Add the shop")

    def open_pull_request(self, name: str, prompt: str) -> None:
        """Push a branch that changes the prompt, and its merge into main, `merge/NAME`."""
        self._git("switch", "--quiet", "--create", name, "main")
        (self.origin / "prompt.md").write_text(prompt, "utf-8")
        self._git("add", "prompt.md")
        self._commit("Change the prompt")
        self._git("switch", "--quiet", "--create", f"merge/{name}", "main")
        self._git("merge", "--quiet", "--no-ff", name)

    def run_on_github(self, name: str) -> Result:
        """Run the workflow for a pull request, as GitHub does."""
        workflow = msgspec.yaml.decode((self.origin / ".github/workflows/eval.yml").read_bytes())
        [job] = workflow["jobs"].values()
        self._add_program("gh", GH)
        environment = {
            "COMMENTS": str(self.runner / "comments.json"),
            "GITHUB_REPOSITORY": "you/shop",
            "GITHUB_STEP_SUMMARY": str(self.runner / "summary.md"),
        }
        checkout, *steps = msgspec.convert(job["steps"], list[Step])
        assert checkout.uses.startswith("actions/checkout@")
        folder = self._clone(f"merge/{name}", checkout.parameters["fetch-depth"])
        result = Result()
        for step in steps:
            if _is_due(step, result, folder):
                if step.uses:
                    result.artifacts += _use_action(step, folder)
                    continue
                values = {key: _evaluate(value) for key, value in step.env.items()}
                if not self._run(["-e"], step.run, folder, environment | values, result):
                    result.failed.append(step.name)
        return result

    def run_on_gitlab(self, name: str, api_url: str) -> Result:
        """Run the job for a merge request, as GitLab does."""
        [job] = msgspec.yaml.decode((self.origin / ".gitlab-ci.yml").read_bytes()).values()
        assert job["variables"]["GIT_DEPTH"] == "0"
        environment = {
            "CI_API_V4_URL": api_url,
            "CI_MERGE_REQUEST_DIFF_BASE_SHA": self._git("merge-base", "main", name).strip(),
            "CI_MERGE_REQUEST_IID": "7",
            "CI_PROJECT_ID": "12",
            "COMMENT_TOKEN": "token",
            "OPENAI_API_KEY": "none",
        }
        folder = self._clone(name, None)
        result = Result()
        if not self._run(["-eo", "pipefail"], "\n".join(job["script"]), folder, environment, result):
            result.failed.append("script")
        assert self._run(["-eo", "pipefail"], "\n".join(job["after_script"]), folder, environment, result), (
            result.output
        )
        paths = [*job["artifacts"]["paths"], job["artifacts"]["reports"]["junit"]]
        result.artifacts = [path for path in paths if (folder / path).exists()]
        return result

    def _clone(self, branch: str, depth: int | None) -> Path:
        folder = self.runner / f"clone-{branch.replace('/', '-')}"
        options = [] if depth is None else ["--depth", str(depth)]
        self._git("clone", "--quiet", "--branch", branch, *options, self.origin.as_uri(), str(folder))
        return folder

    def _run(
        self, options: Sequence[str], source: str, folder: Path, environment: dict[str, str], result: Result
    ) -> bool:
        process = subprocess.run(
            ["bash", "--noprofile", "--norc", *options, "-c", source],
            cwd=folder,
            env=self.environment | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=120,
            check=False,
        )
        result.output += process.stdout
        return process.returncode == 0

    def _git(self, *arguments: str) -> str:
        identity = ["-c", "user.name=You", "-c", "user.email=you@example.com"]
        command = ["git", *identity, "-C", str(self.origin), *arguments]
        return subprocess.run(command, env=self.environment, check=True, capture_output=True, encoding="utf-8").stdout

    def _commit(self, message: str) -> None:
        self._git("commit", "--quiet", "--message", message)

    def _add_program(self, name: str, source: str) -> None:
        path = self.runner / "bin" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, "utf-8")
        path.chmod(0o755)


def _is_due(step: Step, result: Result, folder: Path) -> bool:
    if not step.condition:
        return not result.failed
    match = re.fullmatch(r"\$\{\{ !cancelled\(\)(?: && hashFiles\('(.+)'\) != '')? \}\}", step.condition)
    assert match, step.condition
    return match[1] is None or (folder / match[1]).exists()


def _use_action(step: Step, folder: Path) -> list[str]:
    """Return the files that the action uploads."""
    name = step.uses.partition("@")[0]
    if name == "actions/setup-python":
        assert step.parameters["cache"] == "pip"
        assert (folder / "requirements.txt").exists()  # The key of the cache is its hash.
        return []
    assert name == "actions/upload-artifact"
    return [path for path in step.parameters["path"].splitlines() if (folder / path).exists()]


def _evaluate(value: str) -> str:
    match = re.fullmatch(r"\$\{\{ (.+) \}\}", value)
    return EXPRESSIONS[match[1]] if match else value


class GitLab(HTTPServer):
    """Records the notes on merge requests."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _NotesHandler)
        self.notes: list[tuple[str, str | None, str]] = []


class _NotesHandler(BaseHTTPRequestHandler):
    server: GitLab  # pyright: ignore[reportIncompatibleVariableOverride]

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"])).decode()
        self.server.notes.append((self.path, self.headers["private-token"], parse_qs(body)["body"][0]))
        self.send_response(201)
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Print nothing."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    folder = tmp_path_factory.mktemp("ci")
    with Reader(folder / "you") as reader:
        reader.follow(PAGE)
        yield Project(reader.folder / "shop", folder / "runner", f"http://localhost:{reader.port('8643')}/v1")


@pytest.fixture(scope="module")
def gitlab() -> Iterator[GitLab]:
    with GitLab() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def comments(project: Project) -> list[str]:
    lines = subprocess.check_output(["jq", "--compact-output", ".body", project.runner / "comments.json"]).splitlines()
    return [msgspec.json.decode(line) for line in lines]


def test_the_github_workflow_compares_a_pull_request_with_main_and_updates_its_comment(project: Project) -> None:
    project.open_pull_request("better", (project.origin / "prompts/short.md").read_text("utf-8"))
    project.open_pull_request("worse", WORSE_PROMPT)

    better = project.run_on_github("better")

    assert (better.failed, better.artifacts) == ([], ["report.html", "junit.xml", "eval.db"]), better.output
    summary = (project.runner / "summary.md").read_text("utf-8")
    assert summary.startswith("## ✅ questions.csv: pull-request\n")
    assert "\n### pull-request vs. main (baseline)\n" in summary
    assert comments(project) == [f"<!-- palaver eval -->\n{summary}"]

    worse = project.run_on_github("worse")

    assert (worse.failed, worse.artifacts) == (["Evaluate the pull request"], better.artifacts), worse.output
    assert "FAILED --max-regressions 0: 3 rows regressed in contains for 'pull-request'." in worse.output
    [comment] = comments(project)
    assert re.findall(r"^- (.*) \(contains\)$", comment, re.MULTILINE) == [
        "Can I return a bike?",
        "How long does delivery take?",
        "How long does a repair take?",
    ]


def test_the_gitlab_job_compares_a_merge_request_with_its_base_and_writes_a_note(
    project: Project, gitlab: GitLab
) -> None:
    project.open_pull_request("shorter", WORSE_PROMPT)

    result = project.run_on_gitlab("shorter", f"http://127.0.0.1:{gitlab.server_port}/api/v4")

    assert (result.failed, result.artifacts) == (["script"], ["report.md", "report.html", "eval.db", "junit.xml"])
    [(path, token, note)] = gitlab.notes
    assert (path, token) == ("/api/v4/projects/12/merge_requests/7/notes", "token")
    assert note.startswith("## ❌ questions.csv: merge-request\n")
    assert "\n### merge-request vs. main (baseline)\n" in note


def test_yaml_in_the_docs_is_valid() -> None:
    for page, page_blocks in pages_with("yaml").items():
        for block in page_blocks:
            assert msgspec.yaml.decode(block.source), f"{page}:{block.line}"
