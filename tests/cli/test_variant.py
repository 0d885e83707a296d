"""`palaver variant`: list, compare, export and import variants."""

import asyncio
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from palaver.cli.main import cli
from palaver.errors import NotFound, TargetNotFound
from palaver.storage import variants
from palaver.storage.database import Database, open_database
from palaver.storage.variants import VariantDraft

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
APP = """
from typing import Annotated
from palaver import Parameter, workflow

@workflow
def tutor(text: str, style: Annotated[str, Parameter()] = "long") -> str: ...
"""
FILE = """\
{
  "description": "Few words.",
  "name": "short",
  "palaver": "variant/1",
  "parameters": {
    "style": "short",
    "weight": 1.0
  },
  "workflow": "tutor"
}
"""


def run(tmp_path: Path, *arguments: str, db: str = "palaver.db") -> Result:
    result = CliRunner().invoke(cli, ["variant", *arguments, "--db", str(tmp_path / db)], standalone_mode=False)
    if result.exception is not None:
        raise result.exception
    return result


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder with a database that has two versions of tutor@short, and the default variant of the code."""

    async def fill() -> None:
        database: Database = open_database(str(tmp_path / "palaver.db"))
        parameters: dict[str, Any] = {"style": "brief", "weight": 1.0}
        short = VariantDraft(workflow="tutor", name="short", description="Few words.", parameters=parameters)
        newer = msgspec.structs.replace(short, parameters={"style": "short", "weight": 1.0})
        await database.write(variants.create_variant, "default", short, id="var_1", at=NOON)
        await database.write(variants.commit_version, "default", "var_1", newer, base=1, at=NOON)
        await database.write(variants.sync_default, "default", "tutor", {"style": "long"}, id="var_0", at=NOON)
        await database.close()

    asyncio.run(fill())
    return tmp_path


def test_the_list_shows_the_newest_version_of_each_variant(project: Path) -> None:
    text, data = run(project, "list"), run(project, "list", "--workflow", "tutor", "--json")
    none = run(project, "list", "--project", "team")

    assert text.output == "tutor@short:2    2026-11-15 12:00  Few words.\ntutor@default:1  2026-11-15 12:00\n"
    assert [(row["id"], row["head"]) for row in msgspec.json.decode(data.output)] == [("var_1", 2), ("var_0", 1)]
    assert none.output == "No variants.\n"


def test_two_versions_are_compared(project: Path) -> None:
    text = run(project, "diff", "tutor@short:1", "tutor@short")
    data = run(project, "diff", "tutor@short", "tutor@default", "--json")
    absent = run(project, "diff", "tutor@short", "tutor@default")
    same = run(project, "diff", "tutor@short", "tutor@short:2")

    assert text.output == '/style: "brief" -> "short"\n'
    assert msgspec.json.decode(data.output) == {
        "changes": [{"path": "/style", "from": "short", "to": "long"}, {"path": "/weight", "from": 1.0}]
    }
    assert absent.output == '/style: "short" -> "long"\n/weight: 1.0 -> (not set)\n'
    assert same.output == "The parameters are identical.\n"


def test_comparing_an_unknown_variant_or_version_is_an_error(project: Path) -> None:
    for reference, error, message in [
        ("a b", click.UsageError, "Invalid variant reference 'a b'"),
        ("short", click.UsageError, "Variant 'short' is ambiguous"),
        ("tutor@none", NotFound, "Variant 'tutor@none' not found"),
        ("tutor@short:9", NotFound, "Version 9 not found"),
    ]:
        with pytest.raises(error, match=message):
            run(project, "diff", "tutor@short", reference)


def test_exported_variants_are_imported_unchanged(project: Path) -> None:
    out = run(project, "export", str(project / "variants"))
    second_import = run(project, "import", str(project / "variants"))
    import_run = run(project, "import", str(project / "variants"), db="other.db")
    run(project, "export", str(project / "copy"), db="other.db")

    files = {str(path.relative_to(project / "variants")): path.read_text() for path in project.glob("variants/*/*")}
    assert files == {"tutor/short.json": FILE}
    assert (project / "copy/tutor/short.json").read_text() == FILE
    assert out.output == f"Exported 1 variant to {project / 'variants'}.\n"
    assert second_import.output == "0 created, 0 updated, 1 unchanged\n"
    assert import_run.output == "1 created, 0 updated, 0 unchanged\n"


def test_importing_a_changed_file_creates_a_new_version(project: Path) -> None:
    run(project, "export", str(project / "variants"))
    (project / "variants/tutor/short.json").write_text(FILE.replace('"short",\n    "weight"', '"terse",\n    "weight"'))
    dry_run = run(project, "import", str(project / "variants"), "--dry-run")
    before = run(project, "list", "--json")
    import_run = run(project, "import", str(project / "variants"), "--json")
    after = run(project, "list")

    assert dry_run.output == "0 created, 1 updated, 0 unchanged (nothing was changed)\n"
    assert msgspec.json.decode(before.output)[0]["head"] == 2
    assert msgspec.json.decode(import_run.output) == {"created": 0, "updated": 1, "unchanged": 0, "faults": []}
    assert after.output.startswith("tutor@short:3 ")


def test_an_import_with_any_invalid_file_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "variants/tutor"
    folder.mkdir(parents=True)
    (tmp_path / "app.py").write_text(APP)
    (folder / "short.json").write_text(FILE)
    (folder / "broken.json").write_text("{")
    (folder / "renamed.json").write_text(FILE)
    (folder / "folder.json").mkdir()

    result = run(tmp_path, "import", str(folder.parent), "--against", str(tmp_path / "app.py"))
    list_run = run(tmp_path, "list")

    assert result.return_value == 1
    assert result.stdout == "1 created, 0 updated, 0 unchanged (nothing was changed)\n"
    assert result.stderr.splitlines() == [
        "error: tutor/broken.json: Invalid JSON: input data was truncated.",
        "error: tutor/folder.json: Cannot read the file: is a directory.",
        "error: tutor/renamed.json: The file contains tutor@short. Move it to tutor/short.json.",
        "error: tutor/short.json: Unknown parameter 'weight'. Available: style.",
    ]
    assert list_run.output == "No variants.\n"


def test_exporting_to_a_folder_that_cannot_be_written_is_an_error(project: Path) -> None:
    (project / "variants").write_text("")

    with pytest.raises(TargetNotFound, match=r"Cannot write .*short\.json"):
        run(project, "export", str(project / "variants" / "below"))


def test_more_variants_than_a_page_are_listed_and_exported(tmp_path: Path) -> None:
    folder = tmp_path / "in/tutor"
    folder.mkdir(parents=True)
    for number in range(203):
        (folder / f"v{number}.json").write_text(FILE.replace('"name": "short"', f'"name": "v{number}"'))

    import_run = run(tmp_path, "import", str(tmp_path / "in"))
    list_run = run(tmp_path, "list")
    out = run(tmp_path, "export", str(tmp_path / "out"))

    assert import_run.output == "203 created, 0 updated, 0 unchanged\n"
    assert len(list_run.output.splitlines()) == 203
    assert out.output.startswith("Exported 203 variants to ")


@pytest.mark.parametrize("name", ["list", "diff", "export", "import"])
def test_the_help_of_each_command_has_an_example(tmp_path: Path, name: str) -> None:
    result = CliRunner().invoke(cli, ["variant", name, "--help"])

    assert f"palaver variant {name}" in result.output
