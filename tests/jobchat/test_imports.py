"""Job Chat uses only Palaver's public names."""

import ast
from pathlib import Path

import palaver
import palaver_jobchat


def test_only_public_names_are_imported() -> None:
    violations: list[str] = []
    for path in Path(palaver_jobchat.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.ImportFrom(module="palaver", names=names):
                    violations += [f"{path.name}: {name.name}" for name in names if name.name not in palaver.__all__]
                case ast.ImportFrom(module=str(module)) if module.startswith("palaver."):
                    violations.append(f"{path.name}: {module}")
                case ast.Import(names=names):
                    violations += [f"{path.name}: {name.name}" for name in names if name.name.startswith("palaver.")]
                case _:
                    pass

    assert violations == []
