"""Metrics and other names that programs use are documented."""

import re
import tomllib
from pathlib import Path

import msgspec

from palaver import __all__ as exported
from palaver.testing import client, echo
from palaver_jobchat.payload import PayloadLimits
from palaver_jobchat.settings import Settings as JobChatSettings
from tests.docs.pages import DOCS, ROOT

ALL_PAGES = "\n".join(path.read_text("utf-8") for path in sorted(DOCS.rglob("*.md")))
JOB_CHAT_PAGE = (DOCS / "guides" / "jobchat.md").read_text("utf-8")


def missing_names(names: "set[str] | list[str]", text: str) -> list[str]:
    return sorted(name for name in names if not re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text))


async def test_every_metric_is_explained() -> None:
    async with client(echo) as http:
        metrics = (await http.get("/metrics")).text

    ours = {name for name in re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE) if name.startswith("palaver_")}
    assert ours
    assert missing_names(ours, ALL_PAGES) == []


def test_every_public_name_of_the_package_is_used_or_explained() -> None:
    assert missing_names(exported, ALL_PAGES) == []


def test_every_setting_of_job_chat_is_explained() -> None:
    settings = {field.name.upper() for field in msgspec.structs.fields(JobChatSettings)} - {"LIMITS"}
    limits = {f"LIMIT_{field.name.upper()}" for field in msgspec.structs.fields(PayloadLimits)}

    assert missing_names(settings | limits, JOB_CHAT_PAGE) == []


def test_every_failure_of_job_chat_is_explained() -> None:
    sources = [path.read_text("utf-8") for path in sorted(Path(ROOT / "src/palaver_jobchat").rglob("*.py"))]
    codes = {code.upper() for source in sources for code in re.findall(r'Failure\(\s*"(\w+)"', source)}

    assert codes
    assert missing_names(codes, JOB_CHAT_PAGE) == []


def test_every_entry_point_is_explained() -> None:
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]

    assert missing_names(list(entry_points["palaver.evaluators"]), JOB_CHAT_PAGE) == []
    assert missing_names(list(entry_points["palaver.workflows"]), ALL_PAGES) == []
    assert missing_names(list(entry_points["palaver.testsets"]), ALL_PAGES) == []
