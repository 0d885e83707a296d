"""Agenta's tree of matchers as our `combine`: each leaf the evaluator that does the same, each node one of its own."""

import re
from collections.abc import Mapping
from typing import Any, cast

_PASSES = {"all": "all", "any": "any", "threshold": "weighted"}
_LIKE = {"jaccard": "similarity", "levenshtein": "levenshtein", "cosine": "semantic_similarity"}
_NEEDLES = {"starts_with": "prefix", "ends_with": "suffix"}


def combined(node: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The parameters of a `combine`, and notes of what is not the same."""
    notes: list[str] = []
    parts: list[dict[str, Any]] = []
    matchers = node.get("matchers")
    for matcher in cast("list[Any]", matchers) if isinstance(matchers, list) else []:
        if not isinstance(matcher, dict):
            continue
        told = cast("dict[str, Any]", matcher)
        part = _nested(told, notes) if told.get("matchers") else _leaf(told, notes)
        if part is not None:
            weight = told.get("weight", 1)
            if isinstance(weight, int | float) and weight > 0:
                parts.append(part if weight == 1 else {**part, "weight": weight})
            else:
                notes.append("A matcher of no weight was left out.")
    if (score := node.get("score", "weighted")) != "weighted":
        notes.append(f"The score is the weighted mean here, not {score!r}.")
    passes = _PASSES.get(str(node.get("success", "threshold")), "all")
    found: dict[str, Any] = {"of": parts, "pass": passes}
    if passes == "weighted":
        found["threshold"] = node.get("threshold", 1.0)
    return found, notes


def _nested(node: Mapping[str, Any], notes: list[str]) -> dict[str, Any]:
    parameters, more = combined(node)
    notes += more
    return {"key": "combine", "parameters": parameters}


def _leaf(node: Mapping[str, Any], notes: list[str]) -> dict[str, Any] | None:
    parameters: dict[str, Any] = {}
    target = _target(str(node.get("target", "$.outputs")))
    if target is None:
        notes.append(f"The target {node.get('target')!r} has no counterpart: the matcher was left out.")
        return None
    if target != "text":
        parameters["target"] = target
    if node.get("case_sensitive") is False:
        parameters["case_sensitive"] = False
    kind, reference = str(node.get("match", "valid")), node.get("reference")
    column = _column(reference)
    if column is not None:
        parameters["expected_from"] = column
    key = _key(kind, node, reference if column is None else None, parameters)
    if key is None:
        notes.append(f"A matcher {kind!r} has no counterpart, and was left out.")
        return None
    if key in (*_LIKE.values(), "json_diff"):
        parameters["threshold"] = node.get("threshold", 1.0)
    return {"key": key, "parameters": parameters}


def _key(kind: str, node: Mapping[str, Any], literal: Any, parameters: dict[str, Any]) -> str | None:
    """The evaluator for one matcher; what it looks for is put into its parameters. `literal`: what is no column."""
    is_json = node.get("mode") == "json"
    match kind:
        case "valid":
            return "contains_json" if is_json else None
        case "exact" if isinstance(literal, str) and not is_json:
            return _regex(re.escape(literal), {"full": True}, parameters)
        case "exact" if literal is None:
            return "exact_match"
        case "starts_with" | "ends_with":
            if literal is not None:
                parameters[_NEEDLES[kind]] = literal
            return kind
        case "contains":
            return _contains(node, literal, parameters)
        case "regex" if isinstance(literal, str):
            return _regex(literal, {}, parameters)
        case "similarity" if literal is None:
            return _alike(str(node.get("similarity", "jaccard")), parameters)
        case "diff" if literal is None:
            _diff(str(node.get("diff", "full")), parameters)
            return "json_diff"
        case _:
            return None


def _regex(pattern: str, how: Mapping[str, Any], parameters: dict[str, Any]) -> str:
    if parameters.pop("case_sensitive", True) is False:
        parameters["flags"] = "i"
    parameters.update(pattern=pattern, **how)
    return "regex"


def _alike(how: str, parameters: dict[str, Any]) -> str | None:
    if how == "cosine":
        parameters["model"] = "text-embedding-3-small"
    return _LIKE.get(how)


def _contains(node: Mapping[str, Any], literal: Any, parameters: dict[str, Any]) -> str:
    references = node.get("references")
    if isinstance(references, list):
        parameters["substrings"] = [str(one) for one in cast("list[Any]", references)]
        return "contains_any" if node.get("contains") == "any" else "contains_all"
    if literal is not None:
        parameters["substring"] = literal
    return "contains"


def _diff(how: str, parameters: dict[str, Any]) -> None:
    if how == "schema":
        parameters["compare"] = "types"
    elif how == "strict":
        parameters["extra"] = "count"
    else:
        parameters["extra"] = "ignore"
    if parameters.pop("case_sensitive", True) is False:
        parameters["ignore_key_case"] = True


def _target(path: str) -> str | None:
    """`$.outputs` is the text, `$.outputs.a` a place in the value."""
    rest = path.removeprefix("$").removeprefix(".")
    if rest == "outputs":
        return "text"
    return f"value{rest.removeprefix('outputs')}" if rest.startswith(("outputs.", "outputs[")) else None


def _column(reference: Any) -> str | None:
    """`$.inputs.answer` is a column of the row; anything else is what is looked for itself."""
    if not isinstance(reference, str):
        return None
    found = re.fullmatch(r"\$\.(?:inputs|testcase(?:\.data)?)\.(.+)", reference)
    return None if found is None else found[1]
