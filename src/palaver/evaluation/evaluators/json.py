"""JSON evaluators: contains_json, json_field_match, json_multi_field_match, json_diff."""

from collections.abc import Iterator
from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta, UnsetType

from palaver.core.json import json_equal, json_kind
from palaver.errors import InvalidValue
from palaver.evaluation import json_values
from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.json_schema import check_schema, schema_errors
from palaver.evaluation.score import Score, ScoringError
from palaver.evaluation.target import Target

_KIND_TYPES: dict[str, type | tuple[type, ...]] = {"any": (dict, list), "object": dict, "array": list}


def _check_contains_json(parameters: Any, _context: EvaluatorContext) -> None:
    if parameters.schema is not None:
        check_schema(parameters.schema, "/parameters/schema")


@evaluator(title="Contains JSON", check=_check_contains_json)
def contains_json(
    case: Case,
    target: Target,
    kind: Annotated[Literal["any", "object", "array"], Meta(description="Required kind of JSON value.")] = "any",
    schema: Annotated[
        dict[str, Any] | bool | None, Meta(description="JSON Schema (draft 2020-12) that the JSON must match.")
    ] = None,
) -> Score:
    """The text contains a JSON object or array. In prose, `[1]` counts as a citation, not as JSON."""
    value = None if case.flags.is_chat else target.raw(case)
    is_json = isinstance(value, dict | list) and not target.stringify
    candidates = _nested_containers(value) if is_json else _json_candidates(target.text(case))
    faults: list[str] = []
    has_candidate = False
    for candidate in candidates:
        if not isinstance(candidate, _KIND_TYPES[kind]):
            continue
        has_candidate = True
        faults = [] if schema is None else schema_errors(candidate, schema)
        if not faults:
            return Score(passed=True)
    label = "JSON" if kind == "any" else f"JSON {kind}"
    reason = f"the JSON does not match the schema: {faults[0]}" if has_candidate else f"no {label} in the text"
    return Score(passed=False, reason=reason)


def _json_candidates(text: str) -> Iterator[Any]:
    """Yield every object and array: the whole text, else those in code blocks, then in prose; each with children."""
    value = json_values.parse_json(text)
    if value is not UNSET:
        yield from _nested_containers(value)
        return
    for block in json_values.code_blocks(text):
        if (value := json_values.parse_json(block.text)) is not UNSET:
            yield from _nested_containers(value)
    for value, source in json_values.balanced_json(text):
        if not json_values.is_citation_mark(value, source):
            yield from _nested_containers(value)


def _nested_containers(value: Any) -> Iterator[Any]:
    pending = [value]
    while pending:
        container = pending.pop(0)
        if isinstance(container, dict):
            yield cast("Any", container)
            pending += cast("dict[str, Any]", container).values()
        elif isinstance(container, list):
            yield cast("Any", container)
            pending += cast("list[Any]", container)


def check_paths(parameters: Any, _context: EvaluatorContext) -> None:
    """Raise InvalidValue for an invalid `path` or `fields`."""
    field_paths: dict[str, str] = {"/parameters/path": parameters.path} if hasattr(parameters, "path") else {}
    if not field_paths and parameters.fields:
        field_paths = {f"/parameters/fields/{index}": path for index, path in enumerate(parameters.fields)}
    for pointer, path in field_paths.items():
        try:
            json_values.parse_path(path)
        except ValueError as error:
            raise InvalidValue(f"{error}.", pointer=pointer) from None


def expected_json(case: Case, target: Target) -> Any:
    """Return the expected answer as JSON. Raises ScoringError for a text that is not JSON as a whole."""
    expected = target.expected(case)
    if not isinstance(expected, str):
        return expected
    value = json_values.parse_json(expected)
    if value is UNSET:
        raise ScoringError("expected_no_json", "the expected answer is text that is not JSON")
    return value


_MAX_LISTED_PATHS = 20


@evaluator(title="JSON similarity", needs={"expected"}, threshold=0.5)
def json_diff(
    case: Case,
    target: Target,
    compare: Annotated[Literal["values", "types"], Meta(description="Compare values, or only their types.")] = "values",
    *,
    ignore_key_case: Annotated[bool, Meta(description="Ignore case in keys.")] = False,
    extra: Annotated[
        Literal["count", "ignore"], Meta(description="Whether unexpected values count as differences.")
    ] = "count",
    tolerance: Annotated[float, Meta(ge=0, description="Maximum difference between numbers.")] = 0,
) -> Score:
    """The share of JSON values that are equal in the answer and the expected answer."""
    expected = _json_leaves(expected_json(case, target), ignore_key_case=ignore_key_case)
    value = target.value(case)
    if value is UNSET:
        return Score(score=0.0, reason="no JSON in the answer")
    actual = _json_leaves(value, ignore_key_case=ignore_key_case)

    def leaves_equal(leaf: Any, other_leaf: Any) -> bool:
        if compare == "types":
            return json_kind(leaf) == json_kind(other_leaf)
        return json_equal(target.fold_value(leaf), target.fold_value(other_leaf), tolerance=tolerance)

    common = [path for path in expected if path in actual]
    different = [path for path in common if not leaves_equal(actual[path], expected[path])]
    missing = [path for path in expected if path not in actual]
    unexpected = [path for path in actual if path not in expected]
    leaf_count = len(expected) + (len(unexpected) if extra == "count" else 0)
    differences = {"different": different, "missing": missing, "extra": unexpected}
    return Score(
        score=(len(common) - len(different)) / leaf_count,
        reason=", ".join(f"{len(paths)} {label}" for label, paths in differences.items() if paths),
        details={
            label: [json_values.format_path(path) for path in paths[:_MAX_LISTED_PATHS]]
            for label, paths in differences.items()
            if paths
        },
    )


def _json_leaves(value: Any, *, ignore_key_case: bool) -> dict[json_values.PathSteps, Any]:
    return {
        tuple(step.casefold() if isinstance(step, str) else step for step in path) if ignore_key_case else path: leaf
        for path, leaf in json_values.iterate_leaves(value)
    }


@evaluator(title="JSON field match", check=check_paths)
def json_field_match(
    case: Case,
    target: Target,
    path: Annotated[str, Meta(min_length=1, description="Path of the field: a.b[0], $.a[0] or /a/0.")],
    equals: Annotated[Any | UnsetType, Meta(description="Expected value (default: the expected answer).")] = UNSET,
    tolerance: Annotated[float, Meta(ge=0, description="Maximum difference between numbers.")] = 0,
) -> Score:
    """One field of the answer's JSON has the expected value."""
    expected = target.expected(case) if equals is UNSET else equals
    value = target.value(case)
    if value is UNSET:
        return Score(passed=False, reason="no JSON in the answer")
    actual = target.value_at(path, value)
    if actual is UNSET:
        return Score(passed=False, reason=f"{path} is missing")
    if json_equal(target.fold_value(actual), target.fold_value(expected), tolerance=tolerance):
        return Score(passed=True)
    return Score(passed=False, reason=f"{path} differs from the expected value", details={"found": actual})


_FieldPath = Annotated[str, Meta(min_length=1)]


@evaluator(title="JSON multi-field match", needs={"expected"}, check=check_paths)
def json_multi_field_match(
    case: Case,
    target: Target,
    fields: Annotated[
        Annotated[list[_FieldPath], Meta(min_length=1)] | None,
        Meta(description="Paths of the fields (default: all fields of the expected answer)."),
    ] = None,
    tolerance: Annotated[float, Meta(ge=0, description="Maximum difference between numbers.")] = 0,
) -> Score:
    """Several fields of the answer's JSON have the expected values. The score is the share of fields that match."""
    expected = expected_json(case, target)
    paths_by_name = {path: json_values.parse_path(path) for path in fields} if fields else {}
    paths_by_name = paths_by_name or {
        json_values.format_path(path): path for path, _ in json_values.iterate_leaves(expected)
    }
    value = target.value(case)
    matches: dict[str, bool] = {}
    for name, path in paths_by_name.items():
        expected_value, actual = json_values.value_at(expected, path), json_values.value_at(value, path)
        if expected_value is not UNSET:
            matches[name] = actual is not UNSET and json_equal(
                target.fold_value(actual), target.fold_value(expected_value), tolerance=tolerance
            )
    if not matches:
        raise ScoringError("no_fields", f"the expected answer has none of the fields {', '.join(paths_by_name)}")
    different = [name for name, matched in matches.items() if not matched]
    reason = f"different: {', '.join(different[:10])}" if different else ""
    if value is UNSET:
        reason = "no JSON in the answer"
    return Score(not different, (len(matches) - len(different)) / len(matches), reason=reason, details=matches)
