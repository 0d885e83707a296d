"""Generated parts of the docs match the code; `python -m tests.test_generated_docs` rewrites them."""

from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest

from palaver import demo
from palaver.cli.security_probe.probe import ATTACKS
from palaver.conform import GROUPS, Protocol, Rule
from palaver.core.dialects import DIALECT_MODULES
from palaver.evaluation.evaluator import Evaluator
from palaver.evaluation.evaluators import built_in
from palaver.server.settings import Settings
from tests.docs import commands, python_api, rest_api, routes
from tests.docs.docstrings import field_docstrings

DOCS = Path(__file__).parents[1] / "docs"


def losses() -> str:
    sections = [
        "\n".join([f"### {name}", "", *([f"- {loss}" for loss in dialect.LOSSES] or ["Nothing is lost."])])
        for name, dialect in sorted(DIALECT_MODULES.items())
    ]
    return "\n\n".join(sections)


IMPORTANT_SETTINGS = (
    *("host", "port", "db", "workers", "default", "root_path", "trusted_proxies", "allowed_origins"),
    *("connections", "providers", "run_seconds", "record", "redact", "run_days", "trace_retention_days"),
)
"""The settings that most servers need."""


def settings() -> str:
    serve = next(context for context in commands.contexts("palaver") if context.command_path == "palaver serve")
    options = {option.name: option.opts[0] for option in serve.command.params if option.name}
    important = [_setting_row(name, f" {_code(options.get(name))} |") for name in IMPORTANT_SETTINGS]
    parts = [
        f"## The {len(important)} most important settings",
        "\n".join(["| setting | option of `palaver serve` | default | description |", "|---|---|---|---|", *important]),
        "## All settings",
        "\n".join(
            ["| setting | default | description |", "|---|---|---|", *map(_setting_row, Settings.__struct_fields__)]
        ),
    ]
    return "\n\n".join(parts)


def _setting_row(name: str, option: str = "") -> str:
    default = msgspec.json.encode(getattr(Settings(), name)).decode()
    return f"| `{name}` |{option} `{default}` | {field_docstrings(Settings).get(name, '')} |"


def _code(text: str | None) -> str:
    return f"`{text}`" if text else ""


def workflows() -> str:
    folder = Path(demo.__file__).parent
    names = ("eliza", "calculator", "headline", "echo")
    files = [(name, (folder / f"{name}.py").read_text(encoding="utf-8").rstrip()) for name in names]
    return "\n\n".join(f"## {name}\n\n```python\n{source}\n```" for name, source in files)


def rules() -> str:
    def where(rule: Rule) -> str:
        return "all" if rule.required_by == get_args(Protocol) else ", ".join(rule.required_by) or "-"

    def table(title: str) -> str:
        rows = [f"| {rule.id} | {rule.text} | {where(rule)} | {rule.reason} |" for rule in GROUPS[title]]
        head = ["| rule | requirement | must on | reason |", "|---|---|---|---|"]
        return "\n".join([f"### {title}", "", *head, *rows])

    return "\n\n".join(map(table, GROUPS))


def evaluators() -> str:
    shared_parameters = {"target", "stringify", "expected_from", "case_sensitive", "name"}

    def parameters_text(one: Evaluator) -> str:
        required = one.schema.get("required", ())
        fields = {name: field for name, field in one.schema["properties"].items() if name not in shared_parameters}
        if fields.get("threshold", {}).get("default") is None:
            fields.pop("threshold", None)
        return ", ".join(
            f"`{name}`" if name in required else setting_text(name, field) for name, field in fields.items()
        )

    def setting_text(name: str, field: dict[str, Any]) -> str:
        default = field.get("default")
        return f"`{name}={msgspec.json.encode(default).decode()}`" if default is not None else f"`{name}?`"

    rows = [
        f"| `{one.key}` | {one.description} | {parameters_text(one)} |".replace("|  |", "| |")
        for one in built_in().values()
    ]
    return "\n".join(["| key | description | parameters |", "|---|---|---|", *rows])


def attacks() -> str:
    rows = [f"| `{one.name}` | {one.expectation} | {one.needs} |" for one in ATTACKS]
    return "\n".join(["| check | expected behaviour | needs |", "|---|---|---|", *rows])


PARTS = {
    "reference/protocols.md": ("losses", losses),
    "reference/settings.md": ("settings", settings),
    "reference/demo.md": ("workflows", workflows),
    "reference/conform.md": ("rules", rules),
    "reference/doctor.md": ("attacks", attacks),
    "reference/evaluators.md": ("evaluators", evaluators),
    "reference/routes.md": ("routes", routes.table),
    "reference/cli.md": ("commands", commands.table),
    "reference/python-api.md": ("api", python_api.page),
    "reference/rest-api.md": ("operations", rest_api.page),
}


def generated_page(page: str) -> str:
    """Return the page with its generated part up to date."""
    marker, make = PARTS[page]
    text = (DOCS / page).read_text(encoding="utf-8")
    before, _, rest = text.partition(f"<!-- {marker} -->\n")
    after = rest.partition(f"<!-- /{marker} -->\n")[2]
    return f"{before}<!-- {marker} -->\n{make()}\n<!-- /{marker} -->\n{after}"


@pytest.mark.parametrize("page", PARTS)
def test_generated_parts_match_the_code(page: str) -> None:
    assert (DOCS / page).read_text(encoding="utf-8") == generated_page(page)


if __name__ == "__main__":
    for name in PARTS:
        (DOCS / name).write_text(generated_page(name), encoding="utf-8")
