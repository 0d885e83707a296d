"""/api/variants: create, update, compare and move variants over HTTP."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import httpx
import pytest
from litestar import Litestar

from palaver import Parameter, workflow
from palaver.discovery.registry import Registry
from palaver.server.api.variants import VariantController, VariantFileController, VariantViews
from palaver.server.settings import Settings
from palaver.storage.database import MEMORY_URL, Database, open_database
from tests.server.rest_client import FakeCaller, application, rest_client


@workflow
def tutor(
    text: str,
    style: Annotated[str, Parameter(description="Tone of the answers.")] = "long",
    temperature: Annotated[float, Parameter()] = 0.2,
) -> str:
    return f"{style} {temperature} {text}"


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    yield opened
    await opened.close()


@pytest.fixture
def app(database: Database) -> Litestar:
    return variant_app(database, Registry([tutor]))


def variant_app(database: Database, registry: Registry) -> Litestar:
    return application(
        [VariantController, VariantFileController],
        database=database,
        registry=registry,
        settings=Settings(),
        variant_views=VariantViews(registry),
    )


@pytest.fixture
async def http(app: Litestar) -> AsyncIterator[httpx.AsyncClient]:
    async with rest_client(app, FakeCaller(key="ab12cd34")) as client:
        yield client


async def create_variant(http: httpx.AsyncClient, name: str = "short", **parameters: Any) -> dict[str, Any]:
    body = {"name": name, "parameters": parameters or {"style": "short"}}
    answer = await http.post("/api/workflows/tutor/variants", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()


def problem(answer: httpx.Response) -> tuple[int, Any]:
    return answer.status_code, answer.json()["error"]


async def test_a_variant_is_created_with_its_first_version(http: httpx.AsyncClient) -> None:
    body = {"name": "short", "parameters": {"style": "short"}, "description": "Fewer words.", "message": "first"}
    answer = await http.post("/api/workflows/tutor/variants", json=body)
    created = answer.json()
    again = await http.get(answer.headers["location"])
    history = await http.get(f"/api/variants/{created['id']}/versions")

    assert answer.status_code == 201
    assert created == {
        "id": created["id"],
        "workflow": "tutor",
        "name": "short",
        "description": "Fewer words.",
        "head": 1,
        "archived": False,
        "created_at": created["created_at"],
        "updated_at": created["created_at"],
        "parameters": {"style": "short"},
        "fits": True,
        "faults": [],
    }
    assert (again.json(), again.headers["etag"]) == (created, answer.headers["etag"])
    assert history.json() == {
        "data": [
            {
                "variant": created["id"],
                "version": 1,
                "message": "first",
                "key": "key_ab12cd34",
                "created_at": created["created_at"],
            }
        ],
        "next": None,
    }


async def test_a_workflow_has_a_default_variant_with_the_parameters_of_its_code(http: httpx.AsyncClient) -> None:
    (default,) = (await http.get("/api/workflows/tutor/variants")).json()["data"]
    full = (await http.get(f"/api/variants/{default['id']}")).json()
    again = (await http.get("/api/workflows/tutor/variants")).json()["data"]

    assert (default["name"], default["head"]) == ("default", 1)
    assert (full["parameters"], full["fits"]) == ({"style": "long", "temperature": 0.2}, True)
    assert again == [default]


async def test_the_default_variant_cannot_be_edited(http: httpx.AsyncClient) -> None:
    (default,) = (await http.get("/api/workflows/tutor/variants")).json()["data"]
    url = f"/api/variants/{default['id']}"
    answers = [
        await http.patch(url, json={"description": "mine"}),
        await http.delete(url),
        await http.post(f"{url}/versions", json={"base": 1, "parameters": {}}),
    ]
    taken = await http.post("/api/workflows/tutor/variants", json={"name": "default", "parameters": {}})

    assert [(answer.status_code, answer.headers["allow"]) for answer in answers] == [(405, "GET")] * 3
    assert answers[0].json()["error"]["message"] == (
        f"PATCH is not allowed on {url}. This variant is defined in code. Change the code, or create another variant."
    )
    assert problem(taken)[1]["code"] == "name_taken"


async def test_variants_are_listed_in_pages_without_archived_ones(http: httpx.AsyncClient) -> None:
    await http.get("/api/workflows/tutor/variants")
    one, two = await create_variant(http, "one"), await create_variant(http, "two")
    (await http.delete(f"/api/variants/{one['id']}")).raise_for_status()

    first = (await http.get("/api/workflows/tutor/variants?limit=1")).json()
    second = (await http.get(f"/api/workflows/tutor/variants?limit=1&after={first['next']}")).json()
    every = (await http.get("/api/workflows/tutor/variants?archived=true")).json()
    other = await http.get(f"/api/workflows/tutor/variants?archived=true&after={first['next']}")

    assert (len(first["data"]), len(second["data"]), second["next"]) == (1, 1, None)
    assert {row["name"] for row in (*first["data"], *second["data"])} == {"two", "default"}
    assert {row["name"]: row["archived"] for row in every["data"]} == {"one": True, "two": False, "default": False}
    assert problem(other) == (
        400,
        {
            "code": "invalid_value",
            "message": "Invalid cursor: malformed, or for another list. Start again without it.",
            "path": "?after",
        },
    )
    assert two["head"] == 1


@pytest.mark.parametrize("limit", ["0", "201", "x", ""])
async def test_a_limit_outside_1_to_200_is_rejected(http: httpx.AsyncClient, limit: str) -> None:
    status, error = problem(await http.get(f"/api/workflows/tutor/variants?limit={limit}"))

    assert (status, error["code"], error["path"]) == (400, "invalid_value", "?limit")


async def test_parameters_are_checked_when_they_are_committed(http: httpx.AsyncClient) -> None:
    variant = await create_variant(http)
    wrong = {"temperature": "hot", "colour": "red"}
    first = await http.post("/api/workflows/tutor/variants", json={"name": "x", "parameters": wrong})
    later = await http.post(f"/api/variants/{variant['id']}/versions", json={"base": 1, "parameters": wrong})

    status, error = problem(first)
    assert status == 422
    assert [(fault["code"], fault["path"]) for fault in error["errors"]] == [
        ("invalid_parameter", "/parameters/temperature"),
        ("unknown_parameter", "/parameters/colour"),
    ]
    assert (error["code"], error["path"]) == ("invalid_parameter", "/parameters/temperature")
    assert problem(later) == (422, error)


@pytest.mark.parametrize(
    ("body", "status", "error"),
    [
        ([], 400, {"code": "invalid_body", "message": "The body must be a JSON object."}),
        (
            {"name": "x"},
            400,
            {"code": "invalid_body", "message": "Missing required field /parameters.", "path": "/parameters"},
        ),
        (
            {"name": 5, "parameters": {}},
            400,
            {"code": "invalid_type", "message": "/name must be a string, not an integer.", "path": "/name"},
        ),
        (
            {"name": "x", "parameters": {}, "description": "\0"},
            422,
            {
                "code": "invalid_value",
                "message": r"/description must match the pattern '^[^\\x00]*$'.",
                "path": "/description",
            },
        ),
        (
            {"name": "x", "parameters": {"style": "x" * 262_144}},
            413,
            {
                "code": "too_large",
                "message": "The parameters exceed the limit of 262,144 bytes.",
                "path": "/parameters",
            },
        ),
    ],
)
async def test_an_invalid_body_is_rejected(http: httpx.AsyncClient, body: Any, status: int, error: Any) -> None:
    assert problem(await http.post("/api/workflows/tutor/variants", json=body)) == (status, error)


@pytest.mark.parametrize("name", ["", "-x", "a b", "a/b", "..", "x" * 65, "x\n", "ä"])
async def test_an_invalid_variant_name_is_rejected(http: httpx.AsyncClient, name: str) -> None:
    status, error = problem(await http.post("/api/workflows/tutor/variants", json={"name": name, "parameters": {}}))

    assert (status, error["code"], error["path"]) == (422, "invalid_value", "/name")


async def test_variant_names_are_unique_in_a_workflow(http: httpx.AsyncClient) -> None:
    variant, other = await create_variant(http), await create_variant(http, "other")
    again = await http.post("/api/workflows/tutor/variants", json={"name": "short", "parameters": {}})
    renamed = await http.patch(f"/api/variants/{other['id']}", json={"name": "short"})
    (await http.delete(f"/api/variants/{variant['id']}")).raise_for_status()
    archived = await http.post("/api/workflows/tutor/variants", json={"name": "short", "parameters": {}})

    error = {"code": "name_taken", "message": "The name 'short' is already in use."}
    assert problem(again) == problem(renamed) == (409, error | {"path": "/name"})
    assert problem(archived)[1]["message"] == (
        "The name 'short' is already in use by an archived variant. Unarchive that variant, or choose another name."
    )


async def test_a_new_version_must_be_based_on_the_newest(http: httpx.AsyncClient) -> None:
    url = f"/api/variants/{(await create_variant(http))['id']}/versions"
    newer = {"base": 1, "parameters": {"style": "terse", "temperature": 1.0}, "message": "terser"}
    second = await http.post(url, json=newer)
    same = await http.post(url, json=newer)
    stale = await http.post(url, json={"base": 1, "parameters": {"style": "other"}})
    first = await http.get(f"{url}/1")

    assert (second.status_code, second.headers["location"]) == (201, f"{url}/2")
    assert second.json() == {
        "variant": second.json()["variant"],
        "version": 2,
        "message": "terser",
        "key": "key_ab12cd34",
        "created_at": second.json()["created_at"],
        "parameters": {"style": "terse", "temperature": 1.0},
    }
    assert (same.status_code, same.json()) == (200, second.json() | {"unchanged": True})
    assert problem(stale) == (
        409,
        {
            "code": "stale_base",
            "message": "The latest version of 'short' is 2, not 1. Review it and retry.",
            "details": {"head": 2},
        },
    )
    assert first.json()["parameters"] == {"style": "short"}


async def test_the_diff_of_two_versions_lists_changed_parameters(http: httpx.AsyncClient) -> None:
    variant = await create_variant(http)
    await create_variant(http, "other", temperature=0.7)
    url = f"/api/variants/{variant['id']}"
    (
        await http.post(f"{url}/versions", json={"base": 1, "parameters": {"style": "terse", "temperature": 0.7}})
    ).raise_for_status()
    own = await http.get(f"{url}/diff?from=1&to=2")
    others = [await http.get(f"{url}/diff?from=2&to={to}") for to in ("other:1", "other", "tutor@other:1")]
    unknown = [await http.get(f"{url}/diff?from={pair}") for pair in ("1&to=9", "1&to=none", "0&to=1", "1&to=n:2")]
    nothing = await http.get(f"{url}/diff?from=1")

    assert own.json() == {
        "changes": [{"path": "/style", "from": "short", "to": "terse"}, {"path": "/temperature", "to": 0.7}]
    }
    assert [other.json() for other in others] == [{"changes": [{"path": "/style", "from": "terse"}]}] * 3
    assert [answer.status_code for answer in unknown] == [404, 404, 404, 404]
    assert problem(nothing)[0] == 400


async def test_a_variant_is_renamed_described_archived_and_restored(http: httpx.AsyncClient) -> None:
    url = f"/api/variants/{(await create_variant(http))['id']}"
    changed = await http.patch(url, json={"name": "brief", "description": "x", "archived": True, "more": 1})
    restored = await http.patch(url, json={"description": None, "archived": None})
    nothing = await http.patch(url, json={})
    wrong = await http.patch(url, json={"name": None})

    assert {key: changed.json()[key] for key in ("name", "description", "archived")} == {
        "name": "brief",
        "description": "x",
        "archived": True,
    }
    assert (restored.json()["description"], restored.json()["archived"]) == ("", False)
    assert (nothing.status_code, nothing.json()) == (200, restored.json())
    assert problem(wrong)[0] == 400


async def test_an_archived_variant_and_its_versions_stay_readable(http: httpx.AsyncClient) -> None:
    url = f"/api/variants/{(await create_variant(http))['id']}"
    archived = await http.delete(url)

    assert (archived.status_code, archived.content) == (204, b"")
    assert (await http.get(url)).json()["archived"] is True
    assert (await http.get(f"{url}/versions/1")).json()["parameters"] == {"style": "short"}


async def test_a_variant_with_a_matching_etag_is_304(http: httpx.AsyncClient) -> None:
    url = f"/api/variants/{(await create_variant(http))['id']}"
    tag = (await http.get(url)).headers["etag"]
    same = await http.get(url, headers={"if-none-match": f'"x", W/{tag}'})
    other = await http.get(url, headers={"if-none-match": '"x"'})

    assert (same.status_code, same.content, same.headers["etag"]) == (304, b"", tag)
    assert other.status_code == 200


@pytest.mark.parametrize("method", ["PATCH", "DELETE"])
async def test_a_change_with_a_stale_etag_is_rejected(http: httpx.AsyncClient, method: str) -> None:
    url = f"/api/variants/{(await create_variant(http))['id']}"
    old = (await http.get(url)).headers["etag"]
    newer = (await http.patch(url, json={"description": "newer"})).headers["etag"]
    body: dict[str, Any] = {"json": {"description": "mine"}} if method == "PATCH" else {}
    stale = await http.request(method, url, headers={"if-match": old}, **body)
    fresh = await http.request(method, url, headers={"if-match": newer}, **body)

    assert problem(stale) == (
        412,
        {"code": "stale_base", "message": "The object has changed since you read it.", "details": {"etag": newer}},
    )
    assert fresh.status_code in (200, 204)


async def test_a_variant_of_another_project_gets_the_same_404_as_an_unknown_one(
    app: Litestar, http: httpx.AsyncClient
) -> None:
    url = f"/api/variants/{(await create_variant(http))['id']}"
    unknown = "/api/variants/var_00000000000000000000000000"
    async with rest_client(app, FakeCaller("other")) as other_project:
        for method, tail, body in [
            ("GET", "", None),
            ("PATCH", "", {"name": "mine"}),
            ("DELETE", "", None),
            ("GET", "/versions", None),
            ("GET", "/versions/1", None),
            ("POST", "/versions", {"base": 1, "parameters": {}}),
            ("GET", "/diff?from=1&to=1", None),
        ]:
            sent: dict[str, Any] = {} if body is None else {"json": body}
            theirs = await other_project.request(method, url + tail, **sent)
            missing = await other_project.request(method, unknown + tail, **sent)
            assert problem(theirs)[0] == 404
            assert theirs.text.replace(url[14:], "") == missing.text.replace(unknown[14:], "")
        mine = await other_project.get("/api/workflows/tutor/variants")
        lines = await other_project.get("/api/variants/export")
        same = await other_project.post("/api/workflows/tutor/variants", json={"name": "short", "parameters": {}})

    assert [row["name"] for row in mine.json()["data"]] == ["default"]
    assert lines.content == b""
    assert same.status_code == 201


async def test_a_workflow_that_is_not_served_has_no_variants(http: httpx.AsyncClient) -> None:
    answers = [
        await http.get("/api/workflows/none/variants"),
        await http.post("/api/workflows/none/variants", json={"name": "x", "parameters": {}}),
    ]

    assert [problem(answer)[0] for answer in answers] == [404, 404]
    assert problem(answers[0])[1]["code"] == "workflow_not_found"


async def test_a_variant_reports_when_it_no_longer_fits_the_code(database: Database, http: httpx.AsyncClient) -> None:
    variant = await create_variant(http)

    @workflow(name="tutor")
    def changed(text: str, tone: Annotated[str, Parameter()] = "kind") -> str:
        return text + tone

    with_new_code = variant_app(database, Registry([changed]))
    without_workflow = variant_app(database, Registry())
    async with rest_client(with_new_code) as later, rest_client(without_workflow) as latest:
        now = (await later.get(f"/api/variants/{variant['id']}")).json()
        listed = (await later.get("/api/workflows/tutor/variants")).json()
        nothing = (await latest.get(f"/api/variants/{variant['id']}")).json()

    assert (now["fits"], now["faults"]) == (
        False,
        [
            {
                "code": "unknown_parameter",
                "message": "Unknown parameter 'style'. Available: tone.",
                "path": "/parameters/style",
            }
        ],
    )
    assert {row["name"]: row["head"] for row in listed["data"]} == {"short": 1, "default": 1}
    assert (nothing["fits"], nothing["faults"][0]["code"]) == (False, "workflow_not_found")


# Files


LINE = b'{"description":"","name":"short","palaver":"variant/1","parameters":{"style":"short"},"workflow":"tutor"}\n'
NDJSON = {"content-type": "application/x-ndjson"}


async def test_variants_are_exported_and_imported_as_ndjson(app: Litestar, http: httpx.AsyncClient) -> None:
    await http.get("/api/workflows/tutor/variants")
    await create_variant(http)
    archived = await create_variant(http, "gone")
    (await http.delete(f"/api/variants/{archived['id']}")).raise_for_status()
    exported = await http.get("/api/variants/export?workflow=tutor")
    none = await http.get("/api/variants/export?workflow=other")
    async with rest_client(app, FakeCaller("other")) as other:
        previewed = await other.post("/api/variants/import?dry_run=true", content=exported.content, headers=NDJSON)
        imported = await other.post("/api/variants/import", content=exported.content, headers=NDJSON)
        again = await other.post("/api/variants/import", content=exported.content, headers=NDJSON)
        back = await other.get("/api/variants/export")

    assert (exported.headers["content-type"], exported.content) == ("application/x-ndjson", LINE)
    assert none.content == b""
    assert [answer.json() for answer in (previewed, imported, again)] == [
        {"created": 1, "updated": 0, "unchanged": 0, "faults": []},
        {"created": 1, "updated": 0, "unchanged": 0, "faults": []},
        {"created": 0, "updated": 0, "unchanged": 1, "faults": []},
    ]
    assert back.content == LINE


async def test_more_variants_than_a_page_are_exported(http: httpx.AsyncClient) -> None:
    names = {f"v{number}" for number in range(53)}
    for name in names:
        await create_variant(http, name)

    lines = (await http.get("/api/variants/export")).text.splitlines()

    assert {line.split('"name":"')[1].split('"')[0] for line in lines} == names


async def test_an_import_commits_a_new_version_of_a_changed_variant(http: httpx.AsyncClient) -> None:
    variant = await create_variant(http)
    (await http.delete(f"/api/variants/{variant['id']}")).raise_for_status()
    line = LINE.replace(b'"short"}', b'"terse"}').replace(b'""', b'"New."')
    answer = await http.post("/api/variants/import", content=b"\n" + line, headers=NDJSON)
    now = (await http.get(f"/api/variants/{variant['id']}")).json()

    assert answer.json() == {"created": 0, "updated": 1, "unchanged": 0, "faults": []}
    assert {key: now[key] for key in ("head", "description", "archived", "parameters")} == {
        "head": 2,
        "description": "New.",
        "archived": False,
        "parameters": {"style": "terse"},
    }


async def test_an_import_with_faults_writes_nothing_and_lists_them(http: httpx.AsyncClient) -> None:
    lines = [
        LINE,
        b"{\n",
        LINE.replace(b'"tutor"', b'"none"'),
        LINE.replace(b'"style"', b'"colour"').replace(b'"short",', b'"red",'),
        LINE,
        LINE.replace(b'"short",', b'"default",'),
        LINE.replace(b"variant/1", b"variant/2"),
    ]
    answer = await http.post("/api/variants/import", content=b"".join(lines), headers=NDJSON)
    report = answer.json()
    listed = (await http.get("/api/workflows/tutor/variants")).json()["data"]

    assert [(fault["line"], fault["code"], fault.get("path")) for fault in report["faults"]] == [
        (2, "invalid_json", None),
        (3, "workflow_not_found", None),
        (4, "unknown_parameter", "/parameters/colour"),
        (5, "conflicting_fields", None),
        (6, "invalid_value", "/name"),
        (7, "invalid_value", "/palaver"),
    ]
    assert [row["name"] for row in listed] == ["default"]


async def test_an_import_accepts_only_ndjson(http: httpx.AsyncClient) -> None:
    answer = await http.post("/api/variants/import", json={})

    assert problem(answer) == (
        415,
        {"code": "unsupported_media_type", "message": "Send application/x-ndjson with one variant per line."},
    )


async def test_openapi_describes_variants(app: Litestar) -> None:
    document = app.openapi_schema.to_schema()
    schemas = document["components"]["schemas"]
    body = document["paths"]["/api/variants/{variant}/versions"]["post"]["requestBody"]["content"]["application/json"]

    assert body["schema"]["required"] == ["base", "parameters"]
    assert schemas["Change"]["required"] == ["path"]
    assert {"id", "fits", "faults", "parameters"} <= schemas["VariantView"]["properties"].keys()
