"""`palaver eval` over Job Chat's test set, offline with a scripted model."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec

GATE_OPTIONS = (
    *("--evaluator", "job_rules", "--evaluator", "job_expected"),
    *("--fail-under", "1.0", "--allow-unscored", "job_rules=65%"),
)


def run_eval(folder: Path, testset: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command in this folder, without an API key or a network."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PALAVER_", "ANTHROPIC_"))}
    env |= {
        "PALAVER_JOBCHAT_PROVIDER": "scripted",
        "PALAVER_JOBCHAT_ONLINE": "0",
        "PALAVER_JOBCHAT_CACHE": str(folder / "cache"),
    }
    command = [sys.executable, "-m", "palaver.cli", "eval", "palaver_jobchat:app", testset, *arguments]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=60)


def test_all_questions_pass_offline(tmp_path: Path) -> None:
    run = run_eval(tmp_path, "jobchat_questions", *GATE_OPTIONS)

    assert (run.returncode, run.stderr if run.returncode else "") == (0, "")


def test_one_wrong_answer_fails_the_gate(tmp_path: Path) -> None:
    case = {
        "content": "Why?",
        "context": {"expression": "get('/a');\n"},
        "suggest_code": True,
        "expected": {"edit": False},
        "model_script": [{"text": "Because."}],
    }
    edit = {"name": "edit_job", "input": {"edits": [{"action": "rewrite", "new_code": "b();\n"}]}}
    wrong_case = case | {"model_script": [{"blocks": [{"text": "I'll change it."}, {"tool": edit}]}]}
    (tmp_path / "two.jsonl").write_bytes(b"\n".join(map(msgspec.json.encode, (case, wrong_case))))

    run = run_eval(tmp_path, "two.jsonl", *GATE_OPTIONS)

    assert run.returncode == 1
    assert "job_expected" in run.stdout + run.stderr


def test_every_evaluator_can_be_selected_by_its_key(tmp_path: Path) -> None:
    run = run_eval(tmp_path, "jobchat_questions", "-e", "job_parses", "-e", "job_outside_untouched", "-e", "code_edit")

    assert (run.returncode, run.stderr if run.returncode else "") == (0, "")
    assert [line for line in ("job_parses", "job_outside_untouched", "code_edit") if line not in run.stdout] == []
