"""The public names of `import palaver`, which load no server and no database."""

import subprocess
import sys

import pytest

import palaver

# All public names.
PUBLIC_NAMES = {
    *("chat", "workflow", "connect"),
    *("Message", "Text", "Reasoning", "File", "ToolCall", "ToolResult", "Refusal", "Data", "Usage"),
    *("Context", "ModelOptions", "Parameter", "Failure", "PalaverError"),
    *("app", "extract_chat_messages", "read_conversation"),
    *("evaluator", "Case", "Score", "Skip"),
}

HEAVY_MODULES = {
    *("litestar", "uvicorn", "httpx", "sqlalchemy", "pydantic", "click", "rich", "prometheus_client"),
    *("numpy", "rapidfuzz", "regex", "jsonschema"),
}

LIST_LOADED_MODULES = """
import sys
before = set(sys.modules)
import palaver
print(*sorted({name.partition(".")[0] for name in set(sys.modules) - before}))
"""


def test_all_lists_the_public_names_once_each() -> None:
    assert sorted(palaver.__all__) == sorted(PUBLIC_NAMES)


@pytest.mark.parametrize("name", sorted(PUBLIC_NAMES))
def test_a_public_name_resolves_and_is_listed(name: str) -> None:
    assert getattr(palaver, name) is not None
    assert name in dir(palaver)


def test_importing_the_evaluator_api_loads_no_heavy_dependency() -> None:
    code = LIST_LOADED_MODULES.replace("import palaver\n", "from palaver import Case, Score, evaluator\n")
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())

    assert "palaver" in loaded
    assert loaded & HEAVY_MODULES == set()


def test_importing_palaver_loads_no_server_and_no_database() -> None:
    run = subprocess.run([sys.executable, "-c", LIST_LOADED_MODULES], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())

    assert "palaver" in loaded
    assert loaded & HEAVY_MODULES == set()
