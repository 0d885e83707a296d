"""Names that don't help a reader: modules named by a verb form, and names that stand for many different things."""

import ast
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import PurePath

KNOWN_GERUNDS = frozenset("binding logging routing streaming testing tracing".split())
"""Verb forms that engineers use as nouns for a subject."""
NOUNS = frozenset("ping ring string thing setting".split())

MAX_USES = 3

SHARED_NAMES = frozenset(
    # Protocol adapters (protocols/base.py), message dialects and span conventions each have the same functions;
    # `command` is the click command of a CLI module.
    "decode stream_encoder encode_response response_head encode_error read write read_fields command main".split()
)
"""Names that mean the same thing everywhere."""


def gerund_modules(paths: Iterable[str]) -> list[str]:
    """Return the paths of modules and packages whose name ends in -ing, apart from well-known ones."""
    matches: set[str] = set()
    for path in map(PurePath, paths):
        for part in (path, *path.parents):
            words = part.name.split(".")[0].replace("-", "_").split("_")
            if words[-1].endswith("ing") and words[-1] not in KNOWN_GERUNDS | NOUNS:
                matches.add(part.as_posix())
    return sorted(matches)


def python_classes(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the files that define each top-level class."""
    return _definitions(sources, ast.ClassDef)


def python_functions(sources: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the files that define each public module-level function."""
    functions = _definitions(sources, ast.FunctionDef, ast.AsyncFunctionDef)
    return {name: paths for name, paths in functions.items() if not name.startswith("_")}


def common_names(definitions: Mapping[str, list[str]]) -> list[str]:
    """Return `name ×count` for names that are defined in more than three modules, most frequent first."""
    counts = {name: len(set(paths)) for name, paths in definitions.items() if name not in SHARED_NAMES}
    common = sorted(((count, name) for name, count in counts.items() if count > MAX_USES), reverse=True)
    return [f"{name} ×{count}" for count, name in common]


def _definitions(sources: Mapping[str, str], *kinds: type[ast.stmt]) -> dict[str, list[str]]:
    paths_by_name: dict[str, list[str]] = defaultdict(list)
    for path, text in sources.items():
        for node in ast.parse(text).body:
            if isinstance(node, kinds):
                paths_by_name[getattr(node, "name", "")].append(path)
    return paths_by_name
