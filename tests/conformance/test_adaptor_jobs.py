"""The jobs that Job Chat shows to a model, run with the real http adaptor of each major version."""

import json
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from palaver_jobchat.adaptors import examples
from palaver_jobchat.adaptors.entries import AdaptorDocs, Entry, decode_description, select_entries
from palaver_jobchat.adaptors.library import SAMPLES, load_entries
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.docs.index import SAMPLE_PAGES
from palaver_jobchat.javascript import Node, javascript_blocks
from palaver_jobchat.payload import Payload
from palaver_jobchat.prompt import PRIMER, build_prompt
from palaver_jobchat.rules import check
from palaver_jobchat.rules.base import Job, parameter_names
from tests.conformance.node_drivers import HERE, Driver

PACKAGES = {"6.4.3": "language-http-6", "7.2.10": "language-http-7"}
PATIENTS = [
    {"id": 1, "first": "Ada", "last": "Diop", "active": True, "age": 40},
    {"id": 2, "first": "Bo", "last": "Sy", "active": False, "age": 9},
    {"id": 3, "first": "Cy", "last": "Ba", "active": True, "age": 52},
]
STATE = {
    "data": {"id": 7, "path": "/patients", "items": PATIENTS},
    "records": PATIENTS,
    "adults": PATIENTS,
    "patient": PATIENTS[0],
    "count": 3,
    "cursor": "2026-01-01",
}
VISITS = [{"patientId": 1, "name": "Ada Diop"}, {"patientId": 3, "name": "Cy Ba"}]

Request = tuple[str, str, Any]


class RecordingServer(ThreadingHTTPServer):
    """Answers each GET with patients and everything else with an id, and keeps what it received."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.received: list[Request] = []
        self.url = f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def _answer(self) -> None:
        assert isinstance(self.server, RecordingServer)
        content = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.received.append((self.command, self.path, json.loads(content) if content else None))
        body = json.dumps(PATIENTS if self.command == "GET" else {"id": 7}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _answer  # noqa: N815 (names of http.server)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def http_server() -> Iterator[RecordingServer]:
    with RecordingServer() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


RunJob = Callable[[str, str], list[Request]]


@pytest.fixture
def run_job(drivers: Callable[[str], Driver], http_server: RecordingServer) -> RunJob:
    """Return a function that runs a job with a version of the adaptor, and returns the requests that it made."""

    def run(code: str, version: str) -> list[Request]:
        http_server.received.clear()
        state = {**STATE, "configuration": {"baseUrl": http_server.url}}
        answer = drivers("adaptor_job").ask(adaptor=PACKAGES[version], operations=compile_job(code), state=state)
        assert "error" not in answer, (code, answer)
        return list(http_server.received)

    return run


def compile_job(code: str) -> list[str]:
    """Return the operations of a job with their lazy arguments wrapped in functions, as OpenFn's compiler does."""
    job = Job(code)
    calls = {operation.call for operation in job.operations.all}
    insertions: list[tuple[int, str]] = []
    for operation in job.operations.all:
        for argument in operation.arguments:
            if _is_lazy(argument, calls):
                insertions += [(argument.start, "($ => ("), (argument.end, "))")]
    source = code.encode()
    return [_insert(source, statement, insertions) for statement in job.root.children if "statement" in statement.kind]


def _is_lazy(argument: Node, calls: set[Node]) -> bool:
    """Whether `$` occurs in an argument, outside of operations nested in it."""
    if argument in calls:
        return False
    return argument.text == "$" or any(_is_lazy(child, calls) for child in argument.children)


def _insert(source: bytes, statement: Node, insertions: list[tuple[int, str]]) -> str:
    pieces, end = list[str](), statement.start
    for offset, text in sorted(insertions):
        if statement.start <= offset <= statement.end:
            pieces += (source[end:offset].decode(), text)
            end = offset
    return "".join((*pieces, source[end : statement.end].decode())).rstrip().rstrip(";")


def real_docs(version: str) -> AdaptorDocs:
    """Return the docs in the adaptor's own package."""
    entries = decode_description((HERE / "node_modules" / PACKAGES[version] / "ast.json").read_bytes())
    assert entries
    return AdaptorDocs(
        adaptor=Adaptor("@openfn/language-http", version),
        version=version,
        state="exact",
        docs_version=version,
        entries=entries,
    )


def has_nested_options(request: Request) -> bool:
    """Whether options were sent as data."""
    body = request[2]
    items = body if isinstance(body, list) else [body]
    return any(isinstance(item, dict) and bool({"body", "headers"} & item.keys()) for item in items)


def errors(code: str, docs: AdaptorDocs) -> list[str]:
    return [
        f"{finding.rule}: {finding.message}"
        for finding in check(code, docs)
        if finding.level == "error" or finding.rule == "request_options"
    ]


@pytest.mark.parametrize("version", PACKAGES)
def test_example_for_the_major_version_sends_the_data(run_job: RunJob, version: str) -> None:
    docs = real_docs(version)
    prompt = build_prompt(Payload(content="why?"), docs=docs, selection=select_entries(docs.entries))
    (example,) = javascript_blocks(prompt.system[1]["text"].partition("A complete job for this version")[2])

    assert errors(example.code, docs) == []
    assert run_job(example.code, version) == [
        ("GET", "/patients?since=2026-01-01", None),
        *(("POST", "/visits", visit) for visit in VISITS),
    ]


@pytest.mark.parametrize("version", PACKAGES)
def test_primer_is_right_for_each_major_version(run_job: RunJob, version: str) -> None:
    first, second = (block.code for block in javascript_blocks(PRIMER))

    assert errors(first, real_docs(version)) == []
    assert errors(second, real_docs(version)) == []
    assert run_job(first, version) == [
        ("GET", "/patients?since=2026-01-01", None),
        *(("POST", "/visits", visit) for visit in VISITS),
    ]
    assert run_job(second, version) == [("GET", "/patients", None)]


def page_blocks() -> Iterator[tuple[str, str]]:
    """Yield the jobs of the bundled pages that make requests with the http adaptor."""
    docs = real_docs("7.2.10")
    for page in sorted(Path(SAMPLE_PAGES).glob("*.md")):
        for block in javascript_blocks(page.read_text(encoding="utf-8")):
            calls = {operation.name for operation in Job(block.code).operations.all}
            unknown = any(finding.rule == "known_functions" for finding in check(block.code, docs))
            if calls & {"request", "get", "post", "put", "patch", "del"} and not unknown and "dhis2" not in page.name:
                yield page.stem, block.code


@pytest.mark.parametrize("version", PACKAGES)
def test_jobs_of_the_bundled_pages_run_with_each_major_version(run_job: RunJob, version: str) -> None:
    major = version.partition(".")[0]
    requests: list[Request] = []
    pages = set[str]()
    for page, code in page_blocks():
        if code.startswith("// Version ") and not code.startswith(f"// Version {major}\n"):
            continue
        assert errors(code, real_docs(version)) == [], (page, code)
        requests += run_job(code, version)
        pages.add(page)

    assert pages >= {"arrays-and-jsonpath", "errors", "fn-and-each", "http-requests", "operations-and-state"}
    assert [request for request in requests if has_nested_options(request)] == []
    assert {path for method, path, body in requests if method == "POST" and body} == {
        "/adults",
        "/items",
        "/patients",
        "/people",
        "/records",
        "/reports",
    }


@pytest.mark.parametrize(("version", "bundled"), [("6.4.3", "6.5.4"), ("7.2.10", "7.2.10")])
def test_bundled_description_has_the_parameters_of_the_real_one(version: str, bundled: str) -> None:
    entries = load_entries(SAMPLES, "http", bundled)
    assert entries is not None
    real = {entry.name: parameter_names(entry) for entry in real_docs(version).entries if entry.kind == "function"}
    requests = {"request", "get", "post", "put", "patch", "del"}

    assert {entry.name: parameter_names(entry) for entry in entries if entry.name in requests} == {
        name: names for name, names in real.items() if name in requests
    }


def test_bundled_description_of_version_7_has_all_functions_of_the_real_one() -> None:
    def names(entries: Iterable[Entry] | None) -> set[str]:
        return {entry.name for entry in entries or () if entry.kind == "function"}

    assert names(load_entries(SAMPLES, "http", "7.2.10")) == names(real_docs("7.2.10").entries)


def test_the_wrong_form_is_sent_as_data_and_the_rules_find_it(run_job: RunJob) -> None:
    requests = run_job(examples.HTTP_6, "7.2.10")

    assert [request for request in requests if has_nested_options(request)] == requests[1:]
    assert errors(examples.HTTP_6, real_docs("7.2.10")) == [
        (
            "request_options: `post` sends this object as it is, with the key `body`. "
            "The body is the second argument, and options are the third."
        )
    ]
    assert errors(examples.HTTP_7, real_docs("6.4.3")) == [
        "request_options: `post` takes options here and ignores these keys. Pass the body as `{ body: … }`."
    ]
