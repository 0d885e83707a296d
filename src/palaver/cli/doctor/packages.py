"""Check required packages and extras by the distribution's metadata."""

import os
import re
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import PackageNotFoundError, requires, version
from typing import NamedTuple

from palaver.cli.doctor.check import Check, ok, problem, warning

EXTRA_PURPOSES = {
    "pydantic": "pydantic models in signatures",
    "langchain": "LangChain runnables and LangGraph graphs, served as they are",
    "openai-agents": "agents of the OpenAI Agents SDK, served as they are",
    "pydantic-ai": "agents of Pydantic AI, served as they are",
    "jobchat": "Job Chat: its two ways to a model, and a parser of JavaScript",
    "embeddings": "vectors of a model2vec model: search by meaning in Job Chat, semantic_similarity without a provider",
    "parquet": "test sets in and out of Parquet",
}

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:>=\s*(?P<least>[0-9.]+))?[^;]*"
    r"(?:;\s*(?:extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]|(?P<marked>.+)))?"
)
VersionLookup = Callable[[str], str | None]


class Requirement(NamedTuple):
    name: str
    min_version: str
    """Minimum version, or ""."""
    extra: str | None
    """None if always required."""


def installed_version(name: str) -> str | None:
    """Return the version, or None."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_packages(lines: Sequence[str] | None = None, lookup: VersionLookup = installed_version) -> Iterator[Check]:
    """Yield one check for all required packages, and one per extra."""
    requirements = list(_parse_requirements(requires("palaver") or () if lines is None else lines))
    faults = [
        fault
        for requirement in requirements
        if requirement.extra is None and (fault := _requirement_fault(requirement, lookup))
    ]
    if faults:
        yield problem("packages", f"{'; '.join(faults)}.", "Install Palaver again: pip install --upgrade palaver.")
    else:
        count = sum(requirement.extra is None for requirement in requirements)
        yield ok("packages", f"All {count} packages that Palaver needs are here.")
    if lookup("uvloop") is None and os.name != "nt":
        yield problem("packages", "uvloop is missing: streams will be slower.", "Install it with pip install uvloop.")
    for extra in sorted({requirement.extra for requirement in requirements if requirement.extra is not None}):
        yield _check_extra(extra, [requirement for requirement in requirements if requirement.extra == extra], lookup)


def _check_extra(extra: str, requirements: Sequence[Requirement], lookup: VersionLookup) -> Check:
    purpose, install = EXTRA_PURPOSES.get(extra, "more"), f"pip install 'palaver[{extra}]'"
    faults = [fault for requirement in requirements if (fault := _requirement_fault(requirement, lookup))]
    if not faults:
        return ok("extras", f"{extra} is installed: {purpose}.")
    if all(lookup(requirement.name) is None for requirement in requirements):
        return ok("extras", f"{extra} is not installed: it gives {purpose}.", f"To have it: {install}.")
    return warning("extras", f"{extra} is installed in part: {'; '.join(faults)}.", f"For {purpose}: {install}.")


def _requirement_fault(requirement: Requirement, lookup: VersionLookup) -> str:
    installed = lookup(requirement.name)
    if installed is None:
        return f"{requirement.name} is missing"
    if requirement.min_version and _version_tuple(installed) < _version_tuple(requirement.min_version):
        return f"{requirement.name} {installed} is older than {requirement.min_version}"
    return ""


def _parse_requirements(lines: Sequence[str]) -> Iterator[Requirement]:
    for line in lines:
        match = _REQUIREMENT.fullmatch(line.strip())
        # Packages that only some systems need (uvloop) are checked by name.
        if match is not None and match["marked"] is None:
            yield Requirement(match["name"], match["least"] or "", match["extra"])


def _version_tuple(text: str) -> tuple[int, ...]:
    """Parse the leading numbers of a version: 2, 0 of `2.0rc1`. Trailing zeros are dropped."""
    numbers: list[int] = []
    for part in text.split("."):
        digits = re.match(r"\d+", part)
        if digits is None:
            break
        numbers.append(int(digits[0]))
        if digits[0] != part:
            break
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)
