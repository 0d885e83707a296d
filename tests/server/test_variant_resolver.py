"""Which variant a call runs with, and that the default variant follows the code."""

from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest

from palaver import Parameter, workflow
from palaver.core.descriptions import Description
from palaver.errors import InvalidParameter
from palaver.frameworks.remote import RemoteService, RemoteWorkflow
from palaver.server.api.conventions import utc_now
from palaver.server.variant_resolver import merge_parameters, resolve_variant, store_default_variant
from palaver.storage import variants
from palaver.storage.database import MEMORY_URL, Database, open_database
from palaver.storage.variants import ResolvedVariant, VariantDraft
from palaver.workflows.workflow import Workflow


@workflow
def tutor(text: str, style: Annotated[str, Parameter()] = "long", size: Annotated[int, Parameter()] = 1) -> str:
    return f"{style} {size} {text}"


@pytest.fixture
async def database() -> AsyncIterator[Database]:
    opened = open_database(MEMORY_URL)
    yield opened
    await opened.close()


async def create_variant(database: Database, parameters: dict[str, Any]) -> None:
    draft = VariantDraft(workflow="tutor", name="short", parameters=parameters)
    await database.write(variants.create_variant, "default", draft, id="var_1", at=utc_now())


async def test_a_reference_resolves_to_the_parameters_of_its_version(database: Database) -> None:
    await create_variant(database, {"style": "short"})

    resolved = await resolve_variant(database, "default", tutor, "short")

    assert resolved == ResolvedVariant("short:1", {"style": "short"})
    assert merge_parameters(resolved, {"size": 2}) == {"style": "short", "size": 2}
    assert merge_parameters(resolved, {"style": "mine"}) == {"style": "mine"}


async def test_the_default_variant_follows_the_code(database: Database) -> None:
    first = await resolve_variant(database, "default", tutor, "default")

    @workflow(name="tutor")
    def changed(text: str, style: Annotated[str, Parameter()] = "new") -> str:
        return text + style

    second = await resolve_variant(database, "default", changed, "tutor@default")
    same = await resolve_variant(database, "default", changed, "default")

    assert first == ResolvedVariant("default:1", {"style": "long", "size": 1})
    assert second == same == ResolvedVariant("default:2", {"style": "new"})


@pytest.mark.parametrize("reference", ["none", "short:2", "other@short", "a b", "default:9"])
async def test_an_unknown_reference_is_an_invalid_parameter(database: Database, reference: str) -> None:
    await create_variant(database, {})

    with pytest.raises(InvalidParameter):
        await resolve_variant(database, "default", tutor, reference)
    with pytest.raises(InvalidParameter):
        await resolve_variant(database, "other", tutor, "short")


async def test_a_variant_that_no_longer_fits_the_workflow_is_rejected(database: Database) -> None:
    await create_variant(database, {"colour": "red", "style": 5})

    with pytest.raises(InvalidParameter) as caught:
        await resolve_variant(database, "default", tutor, "short")

    unknown = {
        "code": "unknown_parameter",
        "message": "Unknown parameter 'colour'. Available: style, size.",
        "path": "/parameters/colour",
    }
    assert caught.value.message == (
        "Variant 'short:1' is no longer valid for workflow 'tutor': Unknown parameter 'colour'. Available: style, size."
    )
    assert caught.value.details["faults"][0] == unknown
    assert len(caught.value.details["faults"]) == 2


def remote_workflow(parameters: dict[str, Any] | None) -> Workflow:
    def description(**known: Any) -> Description:
        return Description(name="far", flags={"is_chat": False}, remote=True, **known)

    service = RemoteService(url="http://far", dialect="invoke", description=description(parameters=parameters or {}))

    async def discover() -> None:
        return None

    known = service if parameters is not None else None
    return RemoteWorkflow(known, placeholder=description(), url="http://far", discover=discover, headers={}, timeout=1)


async def test_the_last_known_default_of_a_remote_service_is_used_while_it_is_down(database: Database) -> None:
    await store_default_variant(database, "default", remote_workflow({"style": "far"}))
    await store_default_variant(database, "default", remote_workflow(None))

    assert await resolve_variant(database, "default", remote_workflow(None), "default") == ResolvedVariant(
        "default:1", {"style": "far"}
    )


async def test_storing_the_default_variant_twice_at_once_creates_one_version(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_yet(*_: object) -> None:
        return None

    await store_default_variant(database, "default", tutor)
    with monkeypatch.context() as patch:
        patch.setattr(variants, "find_variant", none_yet)  # As both processes saw it at first.
        patch.setattr(variants, "is_default_current", none_yet)
        await store_default_variant(database, "default", tutor)

    assert [one.head for one in (await database.read(variants.list_variants, "default")).data] == [1]
