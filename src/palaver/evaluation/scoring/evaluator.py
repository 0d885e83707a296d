"""@evaluator: a function that scores a case, declared once. Built-ins are made with it, too.

    @evaluator(threshold=0.7)
    async def polite(case: Case, words: list[str] = ["please"]) -> float:
        return sum(word in case.text for word in words) / len(words)

The first parameter is the case. One of type Aim brings in what built-ins share, one of type Reach gives what lies
outside of the case; all others make the schema of its parameters. A sync function runs in a thread.
"""

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, get_args, overload

import msgspec

from palaver.errors import DeclarationError
from palaver.evaluation.scoring import parameters as forms
from palaver.evaluation.scoring.aim import Aim
from palaver.evaluation.scoring.bound import Bound
from palaver.evaluation.scoring.cases import Case
from palaver.evaluation.scoring.reach import Reach
from palaver.evaluation.scoring.scores import Score
from palaver.workflows.annotations import bare, hints_of
from palaver.workflows.callables import called, definition, name_of, place_of

Need = Literal["expected", "chat", "tools", "events", "usage"]
Check = Callable[[Any, Reach], None]
"""Looks at the parameters, as a Struct, before any case is scored; raises InvalidValue with a pointer."""

_Function = Callable[..., Any]
_KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_OURS = {"Case": Case, "Score": Score, "Aim": Aim, "Reach": Reach}


class Evaluator:
    """A function that scores a case. It can still be called as the function it was."""

    def __init__(
        self,
        function: _Function,
        *,
        key: str,
        title: str,
        needs: frozenset[str],
        threshold: float | None,
        check: Check | None,
    ) -> None:
        self.key = key
        self.title = title
        self.description = _first_paragraph(function)
        self.needs = needs
        self.function = function
        self._check = check
        self._is_async = inspect.iscoroutinefunction(called(function))
        taken = _taken(function, key)
        self._aims = [name for name, kind in taken.special.items() if kind is Aim]
        self._reaches = [name for name, kind in taken.special.items() if kind is Reach]
        self._own = frozenset(field[0] for field in taken.fields)
        self.parameters = forms.struct_of(key, _with_common(taken.fields, threshold, with_aim=bool(self._aims)))
        self.schema: dict[str, Any] = forms.schema_of(self.parameters)
        self._threshold = None if "threshold" in self._own else threshold
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The author's own function, as if it had not been declared."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<evaluator {self.key}>"

    @property
    def place(self) -> str:
        """File and line of the function, for people."""
        return place_of(self.function)

    def bind(self, parameters: Mapping[str, Any], reach: Reach, *, name: str | None = None) -> Bound:
        """The evaluator with its parameters; InvalidValue (pointer /parameters/…) for what it does not take."""
        read = forms.read(self.parameters, parameters)
        values = msgspec.structs.asdict(read)
        aim = None
        if self._aims:
            aim = Aim(**{field: values[field] for field in Aim.__struct_fields__ if field in values})
            aim.check()
        if self._check is not None:
            self._check(read, reach)
        named: dict[str, Any] = {key: value for key, value in values.items() if key in self._own}
        named |= dict.fromkeys(self._aims, aim) | dict.fromkeys(self._reaches, reach)
        threshold = values.get("threshold")
        own_name = values.get("name") if "name" not in self._own else None
        return Bound(
            name=name or own_name or self.key,
            needs=self.needs,
            call=functools.partial(self.function, **named),
            is_async=self._is_async,
            aim=aim,
            threshold=threshold if isinstance(threshold, float | int) else None,
            insists="threshold" not in self._own and threshold != self._threshold,
            reach=reach,
        )


@overload
def evaluator(function: _Function, /) -> Evaluator: ...
@overload
def evaluator(
    *,
    key: str | None = None,
    title: str | None = None,
    threshold: float | None = None,
    needs: Iterable[Need] = (),
    check: Check | None = None,
) -> Callable[[_Function], Evaluator]: ...
def evaluator(
    function: _Function | None = None,
    /,
    *,
    key: str | None = None,
    title: str | None = None,
    threshold: float | None = None,
    needs: Iterable[Need] = (),
    check: Check | None = None,
) -> Evaluator | Callable[[_Function], Evaluator]:
    """Declare a function that scores a case.

    It returns a boolean, a number, a label, a Score, a mapping, a list of named Scores, or None to skip. Options:
    `key`, by which it is asked for, otherwise the function's name; `title`, for people; `threshold`, from which score
    on it has passed; `needs`, what it cannot do without: of "expected", "chat", "tools", "events" and "usage"; `check`,
    which is shown the parameters before any case is scored, and may refuse them.
    """

    def declare(function: _Function) -> Evaluator:
        if not callable(function) or isinstance(function, type):
            raise DeclarationError(f"{function!r} is no evaluator: declare a function that takes a case.")
        own = key if key is not None else name_of(function)
        if not _KEY.fullmatch(own):
            raise DeclarationError(
                f"An evaluator cannot have the key {own!r}: use letters, digits, '_', '-', '.', at most 64."
            )
        if unknown := ", ".join(sorted(set(needs) - set(get_args(Need)))):
            raise DeclarationError(f"{own}: an evaluator cannot need {unknown}. Known: {', '.join(get_args(Need))}.")
        return Evaluator(
            function,
            key=own,
            title=title or own.replace("_", " ").capitalize(),
            needs=frozenset(needs),
            threshold=threshold,
            check=check,
        )

    return declare if function is None else declare(function)


# What a function takes


class _Taken(msgspec.Struct, frozen=True):
    fields: tuple[forms.Field, ...]
    special: Mapping[str, Any]
    """Which parameters get an Aim or a Reach."""


def _taken(function: _Function, key: str) -> _Taken:
    try:
        taken = list(inspect.signature(function).parameters.values())
    except ValueError:
        raise DeclarationError(f"{key} does not say what it takes: wrap it in a function of yours.") from None
    hints = hints_of(definition(function), also=_OURS)
    fields: list[forms.Field] = []
    special: dict[str, Any] = {}
    if not taken or taken[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    ):
        raise DeclarationError(f"The evaluator {key} takes no case: give it a first parameter, case.")
    for parameter in taken[1:]:
        kind = hints.get(parameter.name, Any)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DeclarationError(f"{key}: {parameter.name} cannot be given by name: remove the / after it.")
        if bare(kind) in (Aim, Reach):
            special[parameter.name] = bare(kind)
        else:
            fields.append(forms.field_of(parameter, kind))
    return _Taken(tuple(fields), special)


def _with_common(fields: tuple[forms.Field, ...], threshold: float | None, *, with_aim: bool) -> list[forms.Field]:
    """The function's own parameters first; what it takes itself is not added."""
    kinds = (forms.Common, forms.Share, forms.Always) if with_aim else (forms.Always,)
    every = {field[0]: field for field in fields}
    for field in (field for kind in kinds for field in forms.fields_of(kind)):
        every.setdefault(field[0], (field[0], field[1], threshold) if field[0] == "threshold" else field)
    return list(every.values())


def _first_paragraph(function: Any) -> str:
    defined = definition(function)
    own = defined.__doc__ if hasattr(defined, "__code__") else None
    return " ".join(inspect.cleandoc(own or "").partition("\n\n")[0].split())
