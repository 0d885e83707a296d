"""Fields of JSON: what is shared by the evaluators that compare them."""

from typing import Any

from msgspec import UNSET

from palaver.errors import InvalidValue
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Unscored
from palaver.evaluation.values import found_json, paths


def check_paths(parameters: Any, _reach: Reach) -> None:
    """Refuse what is no path, in `path` or in `fields`."""
    given: dict[str, str] = {"/parameters/path": parameters.path} if hasattr(parameters, "path") else {}
    if not given and parameters.fields:
        given = {f"/parameters/fields/{place}": path for place, path in enumerate(parameters.fields)}
    for pointer, path in given.items():
        try:
            paths.steps(path)
        except ValueError as error:
            raise InvalidValue(f"{error}.", pointer=pointer) from None


def expected_json(case: Case, aim: Aim) -> Any:
    """What is expected, as JSON: a text is one that is JSON as a whole."""
    expected = aim.expected(case)
    if not isinstance(expected, str):
        return expected
    value = found_json.whole(expected)
    if value is UNSET:
        raise Unscored("expected_no_json", "what is expected is a text that is no JSON")
    return value
