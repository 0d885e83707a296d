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
SHORT = VariantDraft(
    workflow="tutor", name="short", description="Few words.", parameters={"style": "short"}, key="ab12cd34"
)


def wanted(name: str = "short", **parameters: Any) -> VariantDraft:
    return VariantDraft(workflow="tutor", name=name, parameters=parameters)


def allow(_: object) -> None:
    pass


async def create(
    database: Database, one: VariantDraft = SHORT, *, id: str = "var_1", project: str = "default"
) -> Variant:
    return await database.write(variants.create_variant, project, one, id=id, at=NOON)


async def test_a_variant_is_kept_with_what_it_sets(database: Database) -> None:
    variant = await create(database)

    assert variant == Variant(
        id="var_1", workflow="tutor", name="short", description="Few words.", created_at=NOON, updated_at=NOON
    )
    version = Version(variant="var_1", number=1, parameters={"style": "short"}, key="ab12cd34", created_at=NOON)
    assert await database.read(variants.get_head, "default", "var_1") == VariantHead(variant, version)
    assert await database.read(variants.list_versions, "default", "var_1") == Page([version])


async def test_versions_are_added_one_after_the_other(database: Database) -> None:
    await create(database)
    second = await database.write(variants.commit_version, "default", "var_1", wanted(style="b"), base=1, at=LATER)
    same = await database.write(variants.commit_version, "default", "var_1", wanted(style="b"), base=1, at=LATER)
    with pytest.raises(StaleBase) as stale:
        await database.write(variants.commit_version, "default", "var_1", wanted(style="c"), base=1, at=LATER)
    first = await database.read(variants.list_versions, "default", "var_1", Window(1))
    last = await database.read(variants.list_versions, "default", "var_1", Window(1, first.next))

    assert second == (Version(variant="var_1", number=2, parameters={"style": "b"}, created_at=LATER), True)
    assert same == (second[0], False)
    assert stale.value.details == {"head": 2}
    assert [version.number for version in (*first.data, *last.data)] == [2, 1]
    assert (await database.read(variants.get_variant, "default", "var_1")).updated_at == LATER


async def test_of_many_versions_made_from_one_one_is_kept(database: Database) -> None:
    await create(database)
    tries = [
        database.write(variants.commit_version, "default", "var_1", wanted(style=number), base=1, at=LATER)
        for number in range(10)
    ]
    answers = await asyncio.gather(*tries, return_exceptions=True)

    assert sorted(type(answer).__name__ for answer in answers) == [*["StaleBase"] * 9, "tuple"]


async def test_of_many_variants_of_one_name_one_is_made(database: Database) -> None:
    tries = [create(database, id=f"var_{number}") for number in range(10)]
    answers = await asyncio.gather(*tries, return_exceptions=True)

    assert sorted(type(answer).__name__ for answer in answers) == [*["NameTaken"] * 9, "Variant"]


async def test_a_name_is_taken_in_its_workflow_and_project_only(database: Database) -> None:
    await create(database)
    await create(database, VariantDraft(workflow="other", name="short", parameters={}), id="var_2")
    await create(database, id="var_3", project="team")
    await create(database, wanted("other"), id="var_4")

    for attempt in (
        create(database, id="var_5"),
        create(database, wanted("default"), id="var_5"),
        database.write(variants.update_variant, "default", "var_4", at=LATER, check=allow, name="short"),
        database.write(variants.update_variant, "default", "var_4", at=LATER, check=allow, name="default"),
    ):
        with pytest.raises(NameTaken):
            await attempt


async def test_another_project_knows_nothing_of_it(database: Database) -> None:
    await create(database)

    for attempt in (
        database.read(variants.get_variant, "team", "var_1"),
        database.read(variants.get_head, "team", "var_1"),
        database.read(variants.get_version, "team", "var_1", 1),
        database.read(variants.list_versions, "team", "var_1"),
        database.write(variants.commit_version, "team", "var_1", wanted(), base=1, at=LATER),
        database.write(variants.update_variant, "team", "var_1", at=LATER, check=allow, name="mine"),
    ):
        with pytest.raises(NotFound):
            await attempt
    assert await database.read(variants.list_variants, "team") == Page([])
    assert await database.read(variants.find_variant, "team", "tutor", "short") is None


async def test_the_list_is_of_a_workflow_or_of_all_without_the_archived(database: Database) -> None:
    await create(database)
    await create(database, wanted("gone"), id="var_2")
    await create(database, VariantDraft(workflow="other", name="x", parameters={}), id="var_3")
    await database.write(variants.update_variant, "default", "var_2", at=LATER, check=allow, archived=True)

    async def names(**query: Any) -> list[str]:
        return [variant.name for variant in (await database.read(variants.list_variants, "default", **query)).data]

    assert await names() == ["x", "short"]
    assert await names(workflow="tutor") == ["short"]
    assert await names(workflow="tutor", archived=True) == ["gone", "short"]


async def test_what_may_not_be_changed_is_not(database: Database) -> None:
    variant = await create(database)
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
    ("reference", "fixed", "parameters"),
    [
        ("short", "short:2", {"style": "b"}),
        ("short:1", "short:1", {"style": "short"}),
        ("tutor@short:2", "short:2", {"style": "b"}),
    ],
)
async def test_a_reference_is_fixed_to_a_version(
    database: Database, reference: str, fixed: str, parameters: dict[str, Any]
) -> None:
    await create(database)
    await database.write(variants.commit_version, "default", "var_1", wanted(style="b"), base=1, at=LATER)
    await database.write(variants.update_variant, "default", "var_1", at=LATER, check=allow, archived=True)

    assert await database.read(variants.resolve_reference, "default", "tutor", reference) == ResolvedVariant(
        fixed, parameters
    )


@pytest.mark.parametrize("reference", ["none", "short:3", "other@short", "", "a b", "short:0", "short:999999999"])
async def test_a_reference_to_nothing(database: Database, reference: str) -> None:
    await create(database)
    with pytest.raises(InvalidParameter):
        await database.read(variants.resolve_reference, "default", "tutor", reference)
    with pytest.raises(InvalidParameter):
        await database.read(variants.resolve_reference, "team", "tutor", "short")


async def test_a_version_that_is_not_there(database: Database) -> None:
    await create(database)
    for number in (0, 2, 1 << 40, -1):
        with pytest.raises(NotFound, match=f"'var_1' has no version {number}."):
            await database.read(variants.get_version, "default", "var_1", number)


async def test_the_code_s_own_variant_follows_the_code(database: Database) -> None:
    async def keep(parameters: dict[str, Any], id: str) -> tuple[bool, ResolvedVariant]:
        was = await database.read(variants.is_default_current, "default", "tutor", parameters)
        await database.write(variants.sync_default, "default", "tutor", parameters, id=id, at=NOON)
        assert await database.read(variants.is_default_current, "default", "tutor", parameters)
        return was, await database.read(variants.resolve_reference, "default", "tutor", "default")

    assert await keep({"a": 1}, "var_1") == (False, ResolvedVariant("default:1", {"a": 1}))
    assert await keep({"a": 1}, "var_2") == (True, ResolvedVariant("default:1", {"a": 1}))
    assert await keep({"a": 1.0}, "var_3") == (False, ResolvedVariant("default:2", {"a": 1.0}))
    assert await database.read(variants.resolve_reference, "default", "tutor", "default:1") == ResolvedVariant(
        "default:1", {"a": 1}
    )


# Files


def file(name: str = "short", description: str = "", **parameters: Any) -> VariantFile:
    return VariantFile(workflow="tutor", name=name, description=description, parameters=parameters, palaver="variant/1")


async def import_files(
    database: Database, *files: VariantFile, mode: str = "commit", project: str = "default"
) -> ImportCounts:
    ids = iter(f"var_{project}{number}" for number in range(100, 999))

    def work(db: Connection) -> ImportCounts:
        return variants.import_variants(db, project, files, new_id=lambda: next(ids), at=LATER, mode=mode)  # type: ignore[arg-type]

    return await database.write(work)


async def test_files_come_back_as_they_went(database: Database) -> None:
    files = [file("a", "One.", x=1, y=[1.0, None]), file("b", x={"z": "ä\0", "a": True})]
    claimed = await import_files(database, *files)
    out = await database.read(variants.export_variants, "default")
    second = await import_files(database, *out.data)
    other = await import_files(database, *out.data, project="team")
    back = await database.read(variants.export_variants, "team")

    assert [claimed, second, other] == [ImportCounts(created=2), ImportCounts(unchanged=2), ImportCounts(created=2)]
    assert sorted(out.data, key=lambda one: one.name) == sorted(back.data, key=lambda one: one.name) == files


async def test_an_import_changes_what_differs_and_looking_changes_nothing(database: Database) -> None:
    await create(database)
    await create(database, wanted("gone"), id="var_2")
    await database.write(variants.update_variant, "default", "var_2", at=LATER, check=allow, archived=True)
    files = [file("short", "Few words.", style="new"), file("gone"), file("new")]
    preview = await import_files(database, *files, mode="look")
    before = await database.read(variants.list_variants, "default", archived=True)
    claimed = await import_files(database, *files)
    described = await import_files(database, file("new", "Now with words."))

    assert preview == claimed == ImportCounts(created=1, updated=2)
    assert {variant.name: variant.head for variant in before.data} == {"short": 1, "gone": 1}
    after = (await database.read(variants.list_variants, "default")).data
    assert {variant.name: (variant.head, variant.description) for variant in after} == {
        "short": (2, "Few words."),
        "gone": (1, ""),
        "new": (1, "Now with words."),
    }
    assert described == ImportCounts(updated=1)


async def test_the_code_s_own_variant_is_in_no_file(database: Database) -> None:
    await database.write(variants.sync_default, "default", "tutor", {"a": 1}, id="var_1", at=NOON)

    assert await database.read(variants.export_variants, "default", workflow="tutor") == Page([])
