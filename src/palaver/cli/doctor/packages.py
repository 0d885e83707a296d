"""What Palaver needs and what its extras bring, by what its own metadata says: no list of packages to keep up here."""

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
"""What each extra is for."""

_REQUIREMENT = re.compile(
    r"(?P<name>[A-Za-z0-9._-]+)(?:\[[^]]*\])?\s*(?:>=\s*(?P<least>[0-9.]+))?[^;]*"
    r"(?:;\s*(?:extra\s*==\s*['\"](?P<extra>[^'\"]+)['\"]|(?P<marked>.+)))?"
)
VersionLookup = Callable[[str], str | None]


class Requirement(NamedTuple):
    """A package that is needed."""

    name: str
    least: str
    """The oldest version that will do."""
    extra: str | None
    """None: everybody needs it."""


def installed_version(name: str) -> str | None:
    """Its version; None if it is not there."""
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def check_packages(lines: Sequence[str] | None = None, found: VersionLookup = installed_version) -> Iterator[Check]:
    """Every package that everybody needs in one line, and a line for each extra."""
    needs = list(_parse_requirements(requires("palaver") or () if lines is None else lines))
    faults = [fault for need in needs if need.extra is None and (fault := _requirement_fault(need, found))]
    if faults:
        yield problem("packages", f"{'; '.join(faults)}.", "Install Palaver again: pip install --upgrade palaver.")
    else:
        count = sum(need.extra is None for need in needs)
        yield ok("packages", f"All {count} packages that Palaver needs are here.")
    if found("uvloop") is None and os.name != "nt":
        yield problem("packages", "uvloop is missing: streams will be slower.", "Install it with pip install uvloop.")
    for extra in sorted({need.extra for need in needs if need.extra is not None}):
        yield _check_extra(extra, [need for need in needs if need.extra == extra], found)


def _check_extra(extra: str, needs: Sequence[Requirement], found: VersionLookup) -> Check:
    gives, install = EXTRA_PURPOSES.get(extra, "more"), f"pip install 'palaver[{extra}]'"
    faults = [fault for need in needs if (fault := _requirement_fault(need, found))]
    if not faults:
        return ok("extras", f"{extra} is installed: {gives}.")
    if all(found(need.name) is None for need in needs):
        return ok("extras", f"{extra} is not installed: it gives {gives}.", f"To have it: {install}.")
    return warning("extras", f"{extra} is installed in part: {'; '.join(faults)}.", f"For {gives}: {install}.")


def _requirement_fault(need: Requirement, found: VersionLookup) -> str:
    has = found(need.name)
    if has is None:
        return f"{need.name} is missing"
    if need.least and _version_tuple(has) < _version_tuple(need.least):
        return f"{need.name} {has} is older than {need.least}"
    return ""


def _parse_requirements(lines: Sequence[str]) -> Iterator[Requirement]:
    for line in lines:
        found = _REQUIREMENT.fullmatch(line.strip())
        # What only some systems need (uvloop) is asked for by name.
        if found is not None and found["marked"] is None:
            yield Requirement(found["name"], found["least"] or "", found["extra"])


def _version_tuple(text: str) -> tuple[int, ...]:
    """A version as numbers, up to what is no number: of `2.0rc1` that is 2, 0. Zeros at its end say nothing."""
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
