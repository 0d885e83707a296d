"""code_edit: whether the code edit in the answer applies, parses and meets the checks."""

from typing import Annotated, Any, Literal, cast

from msgspec import UNSET, Meta

from palaver.core.messages import Data
from palaver.errors import InvalidValue
from palaver.evaluation import json_values
from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext
from palaver.evaluation.evaluator import evaluator
from palaver.evaluation.evaluators.expected_tool_calls import ExpectedFrom, as_name_list
from palaver.evaluation.score import Score, Skip
from palaver.evaluation.target import Target

PART_NAME = "code-edit"
"""Name of the data part."""


def _check_code_edit(parameters: Any, _context: EvaluatorContext) -> None:
    requested = (parameters.checks, parameters.equals, parameters.must_contain, parameters.must_not_contain)
    if not any(requested) and parameters.base_from is None:
        raise InvalidValue("at least one check is required.", pointer="/parameters/checks")
    if parameters.base_from is not None:
        try:
            json_values.parse_path(parameters.base_from)
        except ValueError as error:
            raise InvalidValue(f"{error}.", pointer="/parameters/base_from") from None


@evaluator(check=_check_code_edit)
def code_edit(
    case: Case,
    *,
    checks: Annotated[
        list[Literal["applied", "parses", "changed"]], Meta(description="Checks that the edit must pass.")
    ] = ["applied", "parses", "changed"],  # noqa: B006 - never changed
    base_from: Annotated[
        str | None, Meta(description="Path of the original code in the inputs. The edit must be based on this code.")
    ] = None,
    equals: Annotated[bool, Meta(description="Require the code to equal the expected code.")] = False,
    ignore_space: Annotated[bool, Meta(description="Ignore whitespace when comparing code.")] = False,
    must_contain: Annotated[
        str | list[str], Meta(description="String or list of strings that the code must contain.")
    ] = [],  # noqa: B006
    must_not_contain: Annotated[
        str | list[str], Meta(description="String or list of strings that the code must not contain.")
    ] = [],  # noqa: B006
    expected_from: ExpectedFrom = None,
) -> Score:
    """The last code edit passes all `checks`. The score is the share of checks passed."""
    expected = _expected_code(case, expected_from) if equals else ""
    edit = _last_edit(case)
    if edit is None:
        return Score(passed=False, reason="the answer has no code edit")
    old, new = edit.get("old"), edit.get("new")
    code = new if isinstance(new, str) else None
    results: dict[str, bool] = {check: _check_edit(check, edit) for check in checks}
    if base_from is not None:
        results["base"] = isinstance(old, str) and _normalize_space(old, ignore_space) == _normalize_space(
            _base_code(case, base_from), ignore_space
        )
    if equals:
        results["equals"] = code is not None and _normalize_space(code, ignore_space) == _normalize_space(
            expected, ignore_space
        )
    if needles := as_name_list(must_contain):
        results["must_contain"] = code is not None and all(needle in code for needle in needles)
    if needles := as_name_list(must_not_contain):
        results["must_not_contain"] = code is not None and not any(needle in code for needle in needles)
    failed = [check for check, passed in results.items() if not passed]
    return Score(
        passed=not failed,
        score=1 - len(failed) / len(results),
        reason=f"failed checks: {', '.join(failed)}" if failed else "",
        details={"checks": results},
    )


def _last_edit(case: Case) -> dict[str, Any] | None:
    parts = [part for message in case.messages for part in message.parts if isinstance(part, Data)]
    values = [part.value for part in parts if part.name == PART_NAME]
    return cast("dict[str, Any]", values[-1]) if values and isinstance(values[-1], dict) else None


def _check_edit(check: Literal["applied", "parses", "changed"], edit: dict[str, Any]) -> bool:
    match check:
        case "applied":
            edits = edit.get("edits")
            return isinstance(edits, list) and not any(
                cast("dict[str, Any]", applied_edit).get("state") == "failed"
                for applied_edit in cast("list[Any]", edits)
                if isinstance(applied_edit, dict)
            )
        case "parses":
            return json_values.value_at(edit, "syntax.ok") is True
        case "changed":
            return isinstance(edit.get("new"), str) and edit.get("new") != edit.get("old")


def _expected_code(case: Case, expected_from: str | None) -> str:
    expected = Target(expected_from=expected_from).expected(case)
    code = cast("dict[str, Any]", expected).get("code") if isinstance(expected, dict) else expected
    if not isinstance(code, str):
        raise Skip("no_expected", "the expected answer must be text, or an object with a string 'code'")
    return code


def _base_code(case: Case, base_from: str) -> str:
    value = case.inputs[base_from] if base_from in case.inputs else json_values.value_at(case.inputs, base_from)
    if value is UNSET or not isinstance(value, str):
        raise Skip("no_base", f"the inputs have no text at {base_from!r}")
    return value


def _normalize_space(code: str, ignore_space: bool) -> str:  # noqa: FBT001 - it is the evaluator's own parameter
    return "".join(code.split()) if ignore_space else code
