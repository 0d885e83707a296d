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

EVERYTHING = "\n".join(path.read_text("utf-8") for path in sorted(DOCS.glob("*.md")))
JOB_CHAT = (DOCS / "jobchat.md").read_text("utf-8")


def unnamed(names: "set[str] | list[str]", text: str) -> list[str]:
    return sorted(name for name in names if not re.search(rf"(?<![\w]){re.escape(name)}(?![\w])", text))


async def test_every_metric_is_explained() -> None:
    async with client(echo) as http:
        metrics = (await http.get("/metrics")).text

    ours = {name for name in re.findall(r"^# TYPE (\w+)", metrics, re.MULTILINE) if name.startswith("palaver_")}
    assert ours
    assert unnamed(ours, EVERYTHING) == []


def test_every_public_name_of_the_package_is_used_or_explained() -> None:
    assert unnamed(exported, EVERYTHING) == []


def test_every_setting_of_job_chat_is_explained() -> None:
    settings = {field.name.upper() for field in msgspec.structs.fields(JobChatSettings)} - {"LIMITS"}
    limits = {f"LIMIT_{field.name.upper()}" for field in msgspec.structs.fields(PayloadLimits)}

    assert unnamed(settings | limits, JOB_CHAT) == []


def test_every_failure_of_job_chat_is_explained() -> None:
    sources = [path.read_text("utf-8") for path in sorted(Path(ROOT / "src/palaver_jobchat").rglob("*.py"))]
    codes = {code.upper() for source in sources for code in re.findall(r'Failure\(\s*"(\w+)"', source)}

    assert codes
    assert unnamed(codes, JOB_CHAT) == []


def test_every_entry_point_is_explained() -> None:
    entry_points = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["entry-points"]

    assert unnamed(list(entry_points["palaver.evaluators"]), JOB_CHAT) == []
    assert unnamed(list(entry_points["palaver.workflows"]), EVERYTHING) == []
    assert unnamed(list(entry_points["palaver.testsets"]), EVERYTHING) == []
