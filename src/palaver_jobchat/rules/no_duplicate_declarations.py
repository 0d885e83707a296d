"""The rule that no name is declared twice in one place."""

from collections.abc import Iterator

from palaver_jobchat.rules.base import Job, Remark, Rule
from palaver_jobchat.rules.scopes import Declaration


def _judge(job: Job) -> Iterator[Remark]:
    told: set[tuple[str, int, int]] = set()
    for declared in job.scopes.declared.values():
        for declarations in declared.values():
            pair = _clash(declarations)
            if pair is None or (key := (pair[0].name, pair[0].line, pair[1].line)) in told:
                continue
            told.add(key)
            first, second = pair
            yield Remark("error", second.line, f"`{first.name}` is already declared in line {first.line}.")


def _clash(declarations: list[Declaration]) -> tuple[Declaration, Declaration] | None:
    """The first two of a name that cannot stand together. `var`, functions and one parameter can."""
    seen: dict[str, Declaration] = {}
    for one in declarations:
        clashing = ("lexical", "parameter") if one.kind == "parameter" else ("lexical",)
        other = next((seen[kind] for kind in (seen if one.kind == "lexical" else clashing) if kind in seen), None)
        if other is not None:
            return (other, one) if other.line <= one.line else (one, other)
        if one.kind != "own":
            seen.setdefault(one.kind, one)
    return None


RULE = Rule(id="no_duplicate_declarations", description="No name is declared twice in the same place.", judge=_judge)
