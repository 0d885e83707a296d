"""S3: input is never code, a path or a query."""

import ast
import base64
import sys
from collections.abc import AsyncIterator, Iterator
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import msgspec
import pytest

from palaver.discovery.registry import Registry
from palaver.server.app import Server
from palaver.server.routing import WORKFLOW_ROUTES
from palaver.server.settings import Settings
from palaver.storage.database import Database
from palaver.testing import client, echo, in_process_transport, scripted

SOURCE = Path(__file__).parent.parent.parent / "src" / "palaver"
MODULES = {str(path.relative_to(SOURCE)): ast.parse(path.read_text("utf-8")) for path in SOURCE.rglob("*.py")}

FORBIDDEN_BUILTINS = {"eval", "exec", "compile", "__import__", "setattr", "delattr", "globals"}
"""Built-in functions that turn text into code, or access any name."""
NO_SHELL = {"system", "popen", "execv", "execve", "execvp", "spawnv", "spawnl", "getoutput", "create_subprocess_shell"}
UNSAFE = {"pickle", "marshal", "shelve", "dill", "cloudpickle", "jsonpickle", "yaml", "ctypes", "code", "runpy", "xml"}
UNSAFE |= {"csv", "jinja2", "mako", "dbos"}
"""Modules that turn bytes into objects or code, and template engines (S3.6): none is used."""
STARTS_PROCESSES = {"server/supervisor.py", "traces/decode_worker.py"}
"""Modules that restart palaver with the operator's arguments, or run one of its modules."""
IMPORTS_BY_NAME = {"__init__.py", "cli/main.py", "discovery/workflow_loader.py", "frameworks/langchain/__init__.py"}
IMPORTS_BY_NAME |= {"frameworks/base.py", "evaluation/evaluators/__init__.py", "core/dialects/__init__.py"}
"""Modules that import palaver's own modules from a table, or what the operator named."""
REQUEST_PACKAGES = ("server/", "protocols/", "storage/", "engine/", "core/")
GETATTR_MODULES = {
    "protocols/responses/response_object.py",
    "server/api/boards.py",
    "server/api/system.py",
    "server/api/runs.py",
    "server/api/threads.py",
    "server/api/workflows.py",
    "server/logging_setup.py",
    "storage/boards.py",
    "storage/connections.py",
    "storage/files.py",
    "storage/threads/message_tree.py",
    "storage/runs.py",
    "storage/testsets/repository.py",
    "storage/threads/copies.py",
    "storage/threads/import_export.py",
    "storage/variants.py",
}
"""Modules that copy fields between Structs by names from a Struct or a tuple. Review before adding one."""


@cache
def source_calls() -> list[tuple[str, ast.Call, str]]:
    """Return every call in the sources: its module, the node, and the last name of the callee."""
    matches: list[tuple[str, ast.Call, str]] = []
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            match node:
                case ast.Call(func=ast.Name(id=name)) | ast.Call(func=ast.Attribute(attr=name)):
                    matches.append((module, node, name))
                case _:
                    pass
    return matches


def source_imports() -> Iterator[tuple[str, str]]:
    for module, tree in MODULES.items():
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    yield from ((module, alias.name) for alias in names)
                case ast.ImportFrom(module=str(name), level=0):
                    yield module, name
                case _:
                    pass


def test_source_calls_no_eval_or_similar_builtins() -> None:  # S3.1
    matches = {
        (module, name)
        for module, call, name in source_calls()
        if isinstance(call.func, ast.Name) and name in FORBIDDEN_BUILTINS
    }

    assert matches == set()


def test_source_imports_no_unsafe_deserializers_or_template_engines() -> None:  # S3.1, S3.6
    unsafe = {(module, name) for module, name in source_imports() if name.partition(".")[0] in UNSAFE}

    # Records of CSV files are parsed by the standard library (decision 0043).
    assert unsafe == {("testsets/files/csv_file.py", "csv")}


def test_no_command_goes_through_a_shell() -> None:  # S3.1
    shells = {
        (module, name)
        for module, call, name in source_calls()
        if isinstance(call.func, ast.Attribute)
        and name in NO_SHELL
        and ast.unparse(call.func.value) in ("os", "subprocess", "asyncio")
    }
    started = {module for module, name in source_imports() if name == "subprocess"}
    keywords = {keyword.arg for _, call, _ in source_calls() for keyword in call.keywords}

    assert shells == set()
    assert started <= STARTS_PROCESSES
    assert "shell" not in keywords


def test_dynamic_imports_occur_only_in_known_modules() -> None:  # S3.1
    matches = {
        module for module, _, name in source_calls() if name in ("import_module", "exec_module", "module_from_spec")
    }

    assert matches == IMPORTS_BY_NAME


def test_dynamic_getattr_occurs_only_in_reviewed_modules() -> None:  # S3.1
    matches = {
        module
        for module, call, name in source_calls()
        if name == "getattr" and not isinstance(call.args[1], ast.Constant) and module.startswith(REQUEST_PACKAGES)
    }

    assert matches <= GETATTR_MODULES


def test_format_is_called_only_on_known_constants() -> None:  # S3.1
    """`text.format(…)` with text from a request could read any attribute of its arguments."""
    matches = {
        (module, ast.unparse(call.func))
        for module, call, name in source_calls()
        if name in ("format", "format_map", "Template")
        and not (isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Constant))
        and ast.unparse(call.func) != "msgspec.json.format"
    }

    assert matches == {("demo/eliza.py", "replies[earlier_matches % len(replies)].format")}


# Names of workflows

TRAP = "from pathlib import Path\nPath(__file__).with_name('sprung').touch()\ndef run(text: str) -> str: return text\n"
NAMES = ["os:system", "a.b:c", "palaver_trap", "palaver_trap:run", "palaver_trap.py", "palaver_trap.run", "__class__"]
NAMES += [
    "builtins",
    "os.system",
    "palaver.demo:eliza",
    "registry",
    "names",
    "%2e%2e%2fx",
    "echo:echo",
    "echo.py",
]


@pytest.fixture
def trap_marker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A module that records its import."""
    (tmp_path / "palaver_trap.py").write_text(TRAP, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    yield tmp_path / "sprung"
    sys.modules.pop("palaver_trap", None)


def was_imported(trap_marker: Path) -> bool:
    return trap_marker.exists()


def requests_with_name(name: str) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    """Return requests that name a workflow in every way: bodies to post, and paths to get."""
    messages = [{"role": "user", "content": "x"}]
    bodies: list[tuple[str, dict[str, Any]]] = [
        (f"/{name}/{route}", {"messages": messages, "input": "x"}) for route in WORKFLOW_ROUTES
    ]
    bodies += [("/v1/responses", {"model": name, "input": "x"}), ("/invocations", {"model": name, "input": "x"})]
    bodies += [("/v1/chat/completions", {"model": name, "messages": messages}), ("/api/threads", {"workflow": name})]
    bodies += [(f"/api/workflows/{name}/variants", {"name": "x", "parameters": {}})]
    bodies += [(f"/api/workflows/{name}/refresh", {})]
    paths = [f"/{name}/{route}" for route in ("inspect", "v1/models", "agent/info", "v1/responses/resp_x")]
    paths += [f"/api/workflows/{name}", f"/api/workflows/{name}/variants", f"/v1/models/{name}"]
    return bodies, paths


async def test_workflow_names_never_import_or_run_code(trap_marker: Path) -> None:  # S3.1
    statuses: dict[tuple[str, str], int] = {}
    async with client(echo, scripted) as http:
        for name in NAMES:
            bodies, paths = requests_with_name(name)
            responses = [await http.post(path, json=body) for path, body in bodies]
            responses += [await http.get(path) for path in paths]
            statuses |= {(answer.request.method, str(answer.request.url)): answer.status_code for answer in responses}

    assert {request: code for request, code in statuses.items() if code not in (400, 404, 405, 422)} == {}
    assert not was_imported(trap_marker)


HOSTILE_OBJECTS: list[Any] = [
    {"lc": 1, "type": "constructor", "id": ["os", "system"], "kwargs": {"command": "touch sprung"}},
    {"lc": 2, "type": "secret", "id": ["HOME"]},
    {"__class__": "os.system", "__reduce__": ["os.system", ["touch sprung"]], "__proto__": {"a": 1}},
    {"$type": "System.Diagnostics.Process", "$ref": "file:///etc/passwd", "py/object": "os.system"},
    {"text": "{0.__class__} {inputs.__class__} {{config}} ${HOME} $(id) `id` %(name)s"},
    {"text": "=cmd|' /C calc'!A0", "yaml": "!!python/object/apply:os.system ['id']"},
]


async def test_serialized_objects_of_other_languages_stay_data(trap_marker: Path) -> None:  # S3.1
    async with client(echo) as http:
        responses = [await http.post("/echo/invoke", json={"inputs": {"given": value}}) for value in HOSTILE_OBJECTS]

    assert [answer.json() for answer in responses] == [{"given": value} for value in HOSTILE_OBJECTS]
    assert not was_imported(trap_marker)


HOSTILE_PATHS = ["../sprung", "/sprung", "C:\\sprung", "\\\\host\\sprung", "a/../../sprung", "..", ".", "a\\b"]


async def test_file_names_from_clients_are_never_used_as_paths(trap_marker: Path) -> None:  # S3.2
    async with client(echo) as http:
        for name in HOSTILE_PATHS:
            head = {"content-type": "application/pdf", "x-palaver-filename": name}
            upload = await http.post("/api/files", content=b"x", headers=head)
            path = quote(f"{name}x", safe="")
            downloads = [await http.get(f"/{folder}/{path}") for folder in ("api/files", "static", "echo")]
            assert upload.status_code in (400, 422), name
            assert {answer.status_code for answer in downloads} <= {400, 404}, name

    assert sorted(path.name for path in trap_marker.parent.iterdir()) == ["palaver_trap.py"]


# Queries


CONSTANT_STATEMENTS = {f"f'PRAGMA busy_timeout = {{{name} * 1000}}'" for name in ("BUSY_TIMEOUT_S", "_BUSY_TIMEOUT_S")}
CONSTANT_STATEMENTS |= {"f'LISTEN {CHANNEL}'"}
"""Constant statements without parameters."""


def test_sql_uses_only_bound_parameters() -> None:  # S3.5
    """No statement is built from text; the few textual ones are constants."""
    query_functions = (
        "execute",
        "executemany",
        "executescript",
        "exec_driver_sql",
        "scalar",
        "scalars",
        "text",
        "literal_column",
    )
    texts: set[str] = set()
    for module, call, name in source_calls():
        if module.startswith("storage/") and name in query_functions and call.args:
            first = call.args[0]
            if isinstance(first, ast.JoinedStr) and ast.unparse(first) in CONSTANT_STATEMENTS:
                continue
            assert not isinstance(first, ast.JoinedStr | ast.BinOp), (module, ast.unparse(call))
            assert not (isinstance(first, ast.Call) and ast.unparse(first.func).endswith(".format")), module
            if name == "exec_driver_sql":
                texts.add(ast.unparse(first))
            if name == "text":
                assert isinstance(first, ast.Constant), (module, ast.unparse(call))

    # Both inserts have a parameter for each value: SQLAlchemy's inserts, and Palaver's own (span_inserts.py).
    allowed = {"'BEGIN IMMEDIATE'", "'BEGIN' if reads else 'BEGIN IMMEDIATE'"}
    assert texts == allowed | {"statement.text", "'INSERT INTO span_words (rowid, words) VALUES (?, ?)'"}
    assert not {module for module, call, name in source_calls() if name == "literal_column"}


TEXTS = ["100% sure", "100x sure", "snake_case", "snakeXcase", "it's", "its", 'a "quote"', "a quote", "back\\slash"]
TEXTS += [
    "one OR two",
    "one two",
    "near(one two)",
    "pre*",
    "prefix",
    "col:val",
    "-not",
    "plain; DROP TABLE runs",
    "a^b",
]
SEARCHES = {
    "%": ["100% sure"],
    "100%": ["100% sure"],
    "%sure": [],
    "snake_case": ["snake_case"],
    "_____": [],
    "'": ["it's"],
    "it's": ["it's"],
    "' OR '1'='1": [],
    '"': ['a "quote"'],
    '"quote"': ['a "quote"'],
    "\\": ["back\\slash"],
    "one OR two": ["one OR two"],
    "pre*": ["pre*"],
    "near(one two)": ["near(one two)"],
    "col:val": ["col:val"],
    "-not": ["-not"],
    "NOT plain": [],
    "; DROP TABLE runs": ["plain; DROP TABLE runs"],
    "a^b": ["a^b"],
    "') UNION SELECT hash FROM keys --": [],
    "*": ["pre*"],
}


@pytest.fixture
async def http(database: Database) -> AsyncIterator[httpx.AsyncClient]:
    server = Server(Registry([echo, scripted]), Settings(), database=database)
    async with httpx.AsyncClient(transport=in_process_transport(server), base_url="http://localhost") as opened:
        yield opened
    await server.close()


async def test_search_matches_the_literal_text(http: httpx.AsyncClient) -> None:  # S3.5
    for text in TEXTS:
        messages = [{"role": "user", "content": text}]
        (await http.post("/api/threads", json={"workflow": "scripted", "messages": messages})).raise_for_status()
        (await http.post("/scripted/invoke", json={"messages": messages})).raise_for_status()
    matches: dict[str, list[list[str]]] = {}
    for search in SEARCHES:
        threads = (await http.get("/api/threads", params={"search": search})).json()["data"]
        runs = (await http.get("/api/runs", params={"search": search})).json()["data"]
        lines = (await http.get("/api/threads/export", params={"search": search})).content.splitlines()
        matches[search] = [
            sorted(thread["title"] for thread in threads),
            sorted(run["in"]["text"] for run in runs),
            sorted(msgspec.json.decode(line)["title"] for line in lines),
        ]

    assert matches == {search: [texts, texts, texts] for search, texts in SEARCHES.items()}


FILTERS = ["workflow", "variant", "protocol", "thread", "board", "key", "user"]
HOSTILE_VALUES = ["' OR '1'='1", "%", "_", "x'; DROP TABLE runs; --", '"', "\\", "\x00", "é\u202e", "1 UNION SELECT 1"]


async def test_filter_values_cannot_inject_sql(http: httpx.AsyncClient) -> None:  # S3.5
    (await http.post("/echo/invoke", json={"inputs": {}})).raise_for_status()
    for name in FILTERS:
        for trick in HOSTILE_VALUES:
            answer = await http.get("/api/runs", params={name: trick})
            assert answer.status_code in (200, 400, 422), (name, trick, answer.text)
            assert answer.json().get("data", []) == [], (name, trick)

    assert len((await http.get("/api/runs")).json()["data"]) == 1


def cursor(key: Any, check: bytes = b"\0" * 12) -> str:
    return base64.urlsafe_b64encode(check + msgspec.json.encode(key)).rstrip(b"=").decode()


CURSORS = ["' OR 1=1 --", "%", "AAAA", "x" * 5_000, "é", "\x00", cursor(["run_x'; DROP TABLE runs; --"])]
CURSORS += [cursor(["x", "y"]), cursor([1 << 70, "x"]), cursor({"a": 1}), cursor([None]), cursor(["\x00"])]
LIST_PATHS = ["/api/runs", "/api/threads", "/api/feedback", "/api/files", "/api/boards", "/api/keys"]
LIST_PATHS += ["/api/workflows/echo/variants"]


async def test_forged_cursor_is_rejected() -> None:  # S3.5
    async with client(echo) as http:
        responses = [await http.get(path, params={"after": cursor}) for path in LIST_PATHS for cursor in CURSORS]

    assert {(answer.status_code, answer.json()["error"]["path"]) for answer in responses} == {(400, "?after")}


async def test_invalid_order_cursor_or_limit_is_rejected() -> None:  # S3.5
    queries = [{"order": "asc; DROP"}, {"order": "id"}, {"after": "' OR 1=1"}, {"limit": "1;1"}]
    async with client(scripted) as http:
        conversation = (await http.post("/v1/conversations", json={})).json()["id"]
        responses = [await http.get(f"/v1/conversations/{conversation}/items", params=query) for query in queries]

    assert [answer.status_code in (400, 404, 422) for answer in responses] == [True] * 4
