"""Variants and their versions, on every database."""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection

from palaver.core.variants import VariantFile
from palaver.errors import InvalidParameter, NameTaken, NotFound, StaleBase
from palaver.storage import variants
from palaver.storage.database import Database
from palaver.storage.pagination import Page, Window
from palaver.storage.variants import ImportCounts, ResolvedVariant, Variant, VariantDraft, VariantHead, Version

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)
SHORT_DRAFT = VariantDraft(
    workflow="tutor", name="short", description="Few words.", parameters={"style": "short"}, key="ab12cd34"
)


def draft(name: str = "short", **parameters: Any) -> VariantDraft:
    return VariantDraft(workflow="tutor", name=name, parameters=parameters)


def allow(_: object) -> None:
    pass


async def create_variant(
    database: Database, new_draft: VariantDraft = SHORT_DRAFT, *, id: str = "var_1", project: str = "default"
) -> Variant:
    return await database.write(variants.create_variant, project, new_draft, id=id, at=NOON)


async def test_variant_is_stored_with_its_first_version(database: Database) -> None:
    variant = await create_variant(database)

    assert variant == Variant(
        id="var_1", workflow="tutor", name="short", description="Few words.", created_at=NOON, updated_at=NOON
    )
    version = Version(variant="var_1", number=1, parameters={"style": "short"}, key="ab12cd34", created_at=NOON)
    assert await database.read(variants.get_head, "default", "var_1") == VariantHead(variant, version)
    assert await database.read(variants.list_versions, "default", "var_1") == Page([version])


async def test_versions_are_committed_in_order_and_a_stale_base_is_rejected(database: Database) -> None:
    await create_variant(database)
    second = await database.write(variants.commit_version, "default", "var_1", draft(style="b"), base=1, at=LATER)
    same = await database.write(variants.commit_version, "default", "var_1", draft(style="b"), base=1, at=LATER)
    with pytest.raises(StaleBase) as stale:
        await database.write(variants.commit_version, "default", "var_1", draft(style="c"), base=1, at=LATER)
    first = await database.read(variants.list_versions, "default", "var_1", Window(1))
    last = await database.read(variants.list_versions, "default", "var_1", Window(1, first.next))

    assert second == (Version(variant="var_1", number=2, parameters={"style": "b"}, created_at=LATER), True)
    assert same == (second[0], False)
    assert stale.value.details == {"head": 2}
    assert [version.number for version in (*first.data, *last.data)] == [2, 1]
    assert (await database.read(variants.get_variant, "default", "var_1")).updated_at == LATER


async def test_only_one_of_many_concurrent_commits_on_the_same_base_succeeds(database: Database) -> None:
    await create_variant(database)
    attempts = [
        database.write(variants.commit_version, "default", "var_1", draft(style=number), base=1, at=LATER)
        for number in range(10)
    ]
    results = await asyncio.gather(*attempts, return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == [*["StaleBase"] * 9, "tuple"]


async def test_only_one_of_many_concurrent_variants_of_the_same_name_is_created(database: Database) -> None:
    attempts = [create_variant(database, id=f"var_{number}") for number in range(10)]
    results = await asyncio.gather(*attempts, return_exceptions=True)

    assert sorted(type(result).__name__ for result in results) == [*["NameTaken"] * 9, "Variant"]


async def test_variant_name_is_unique_per_workflow_and_project(database: Database) -> None:
    await create_variant(database)
    await create_variant(database, VariantDraft(workflow="other", name="short", parameters={}), id="var_2")
    await create_variant(database, id="var_3", project="team")
    await create_variant(database, draft("other"), id="var_4")

    for attempt in (
        create_variant(database, id="var_5"),
        create_variant(database, draft("default"), id="var_5"),
        database.write(variants.update_variant, "default", "var_4", at=LATER, check=allow, name="short"),
        database.write(variants.update_variant, "default", "var_4", at=LATER, check=allow, name="default"),
    ):
        with pytest.raises(NameTaken):
            await attempt


async def test_variant_of_another_project_is_not_found(database: Database) -> None:
    await create_variant(database)

    for attempt in (
        database.read(variants.get_variant, "team", "var_1"),
        database.read(variants.get_head, "team", "var_1"),
        database.read(variants.get_version, "team", "var_1", 1),
        database.read(variants.list_versions, "team", "var_1"),
        database.write(variants.commit_version, "team", "var_1", draft(), base=1, at=LATER),
        database.write(variants.update_variant, "team", "var_1", at=LATER, check=allow, name="mine"),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert await database.read(variants.list_variants, "team") == Page([])
    assert await database.read(variants.find_variant, "team", "tutor", "short") is None


async def test_list_is_filtered_by_workflow_and_leaves_out_archived_variants(database: Database) -> None:
    await create_variant(database)
    await create_variant(database, draft("gone"), id="var_2")
    await create_variant(database, VariantDraft(workflow="other", name="x", parameters={}), id="var_3")
    await database.write(variants.update_variant, "default", "var_2", at=LATER, check=allow, archived=True)

    async def names(**query: Any) -> list[str]:
        return [variant.name for variant in (await database.read(variants.list_variants, "default", **query)).data]

    assert await names() == ["x", "short"]
    assert await names(workflow="tutor") == ["short"]
    assert await names(workflow="tutor", archived=True) == ["gone", "short"]


async def test_update_is_rejected_if_its_check_raises(database: Database) -> None:
    variant = await create_variant(database)
    seen: list[VariantHead] = []

    def refuse(current: VariantHead) -> None:
        seen.append(current)
        raise StaleBase("no", by="etag")

    with pytest.raises(StaleBase):
        await database.write(variants.update_variant, "default", "var_1", at=LATER, check=refuse, name="other")
    same = await database.write(variants.update_variant, "default", "var_1", at=LATER, check=allow, name="short")

    assert [current.variant for current in seen][-1] == variant
    assert same.variant == variant


@pytest.mark.parametrize(
    ("reference", "resolved", "parameters"),
    [
        ("short", "short:2", {"style": "b"}),
        ("short:1", "short:1", {"style": "short"}),
        ("tutor@short:2", "short:2", {"style": "b"}),
    ],
)
async def test_reference_is_resolved_to_a_version(
    database: Database, reference: str, resolved: str, parameters: dict[str, Any]
) -> None:
    await create_variant(database)
    await database.write(variants.commit_version, "default", "var_1", draft(style="b"), base=1, at=LATER)
    await database.write(variants.update_variant, "default", "var_1", at=LATER, check=allow, archived=True)

    assert await database.read(variants.resolve_reference, "default", "tutor", reference) == ResolvedVariant(
        resolved, parameters
    )


@pytest.mark.parametrize("reference", ["none", "short:3", "other@short", "", "a b", "short:0", "short:999999999"])
async def test_unknown_or_invalid_reference_is_rejected(database: Database, reference: str) -> None:
    await create_variant(database)
    with pytest.raises(InvalidParameter):
        await database.read(variants.resolve_reference, "default", "tutor", reference)
    with pytest.raises(InvalidParameter):
        await database.read(variants.resolve_reference, "team", "tutor", "short")


async def test_unknown_version_is_not_found(database: Database) -> None:
    await create_variant(database)
    for number in (0, 2, 1 << 40, -1):
        with pytest.raises(NotFound, match=f"Version {number} not found in variant 'var_1'."):
            await database.read(variants.get_version, "default", "var_1", number)


async def test_default_variant_gets_a_new_version_when_the_code_changes(database: Database) -> None:
    async def sync(parameters: dict[str, Any], id: str) -> tuple[bool, ResolvedVariant]:
        was = await database.read(variants.is_default_current, "default", "tutor", parameters)
        await database.write(variants.sync_default, "default", "tutor", parameters, id=id, at=NOON)
        assert await database.read(variants.is_default_current, "default", "tutor", parameters)
        return was, await database.read(variants.resolve_reference, "default", "tutor", "default")

    assert await sync({"a": 1}, "var_1") == (False, ResolvedVariant("default:1", {"a": 1}))
    assert await sync({"a": 1}, "var_2") == (True, ResolvedVariant("default:1", {"a": 1}))
    assert await sync({"a": 1.0}, "var_3") == (False, ResolvedVariant("default:2", {"a": 1.0}))
    assert await database.read(variants.resolve_reference, "default", "tutor", "default:1") == ResolvedVariant(
        "default:1", {"a": 1}
    )


# Files


def variant_file(name: str = "short", description: str = "", **parameters: Any) -> VariantFile:
    return VariantFile(workflow="tutor", name=name, description=description, parameters=parameters, palaver="variant/1")


async def import_files(
    database: Database, *files: VariantFile, mode: str = "commit", project: str = "default"
) -> ImportCounts:
    ids = iter(f"var_{project}{number}" for number in range(100, 999))

    def work(db: Connection) -> ImportCounts:
        return variants.import_variants(db, project, files, new_id=lambda: next(ids), at=LATER, mode=mode)  # type: ignore[arg-type]

    return await database.write(work)


async def test_exported_variants_can_be_imported_unchanged(database: Database) -> None:
    files = [variant_file("a", "One.", x=1, y=[1.0, None]), variant_file("b", x={"z": "ä\0", "a": True})]
    first = await import_files(database, *files)
    exported = await database.read(variants.export_variants, "default")
    second = await import_files(database, *exported.data)
    other = await import_files(database, *exported.data, project="team")
    reexported = await database.read(variants.export_variants, "team")

    assert [first, second, other] == [ImportCounts(created=2), ImportCounts(unchanged=2), ImportCounts(created=2)]
    assert sorted(exported.data, key=lambda one: one.name) == sorted(reexported.data, key=lambda one: one.name) == files


async def test_import_updates_what_differs_and_a_preview_changes_nothing(database: Database) -> None:
    await create_variant(database)
    await create_variant(database, draft("gone"), id="var_2")
    await database.write(variants.update_variant, "default", "var_2", at=LATER, check=allow, archived=True)
    files = [variant_file("short", "Few words.", style="new"), variant_file("gone"), variant_file("new")]
    preview = await import_files(database, *files, mode="look")
    before = await database.read(variants.list_variants, "default", archived=True)
    imported = await import_files(database, *files)
    described = await import_files(database, variant_file("new", "Now with words."))

    assert preview == imported == ImportCounts(created=1, updated=2)
    assert {variant.name: variant.head for variant in before.data} == {"short": 1, "gone": 1}
    after = (await database.read(variants.list_variants, "default")).data
    assert {variant.name: (variant.head, variant.description) for variant in after} == {
        "short": (2, "Few words."),
        "gone": (1, ""),
        "new": (1, "Now with words."),
    }
    assert described == ImportCounts(updated=1)


async def test_default_variant_is_not_exported(database: Database) -> None:
    await database.write(variants.sync_default, "default", "tutor", {"a": 1}, id="var_1", at=NOON)

    assert await database.read(variants.export_variants, "default", workflow="tutor") == Page([])
