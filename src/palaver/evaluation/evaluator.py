"""The @evaluator decorator, and evaluators bound to parameters.

    @evaluator(threshold=0.7)
    async def polite(case: Case, words: list[str] = ["please"]) -> float:
        return sum(word in case.text for word in words) / len(words)

The first parameter is the case. A parameter of type Target adds the parameters that built-in evaluators share, one of
type EvaluatorContext receives the context; all others make up the schema of the parameters. A sync function runs in a
thread.
"""

import asyncio
import contextvars
import copy
import functools
import inspect
import re
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal, cast, get_args, overload

import msgspec
from msgspec import UNSET, Meta

from palaver.core import json
from palaver.core.json import validation_error
from palaver.errors import DeclarationError, InvalidValue
from palaver.evaluation.case import Case
from palaver.evaluation.context import EvaluatorContext, Spending, track_spending
from palaver.evaluation.score import (
    EvaluationAborted,
    Score,
    ScoreRecord,
    ScoringError,
    Skip,
    error_score,
    read_result,
    skipped_score,
)
from palaver.evaluation.target import Target
from palaver.workflows.annotations import hints_of, strip_annotation
from palaver.workflows.signature import callable_name, source_location, underlying_callable, unwrap_definition

ParameterField = tuple[str, Any] | tuple[str, Any, Any]
"""Name, type, and default if there is one."""


class CommonParameters(msgspec.Struct, frozen=True, kw_only=True):
    """Parameters of every evaluator. The threshold is unbounded: a custom evaluator's scores may have any scale."""

    threshold: Annotated[float | None, Meta(description="Minimum score to pass.")] = None
    name: Annotated[
        Annotated[str, Meta(min_length=1, max_length=200)] | None,
        Meta(description="Name of the scores (default: the evaluator's key)."),
    ] = None


class ThresholdParameter(msgspec.Struct, frozen=True, kw_only=True):
    """The threshold of scores from 0 to 1."""

    threshold: Annotated[Annotated[float, Meta(ge=0, le=1)] | None, Meta(description="Minimum score to pass.")] = None


_UNKNOWN_FIELD_PATTERN = re.compile(r"Object contains unknown field `(.*?)`")
_MISSING_FIELD_PATTERN = re.compile(r"Object missing required field `(.*?)`")


def struct_fields(struct: type[msgspec.Struct]) -> list[ParameterField]:
    return [(field.name, field.type, field.default) for field in msgspec.structs.fields(struct)]


def parameter_field(parameter: inspect.Parameter, annotation: Any) -> ParameterField:
    hint = Any if isinstance(annotation, str) else annotation  # A string could not be evaluated.
    return (parameter.name, hint) if parameter.default is parameter.empty else (parameter.name, hint, parameter.default)


def make_parameters_struct(key: str, fields: Iterable[ParameterField]) -> type[msgspec.Struct]:
    """Make a frozen Struct that refuses unknown fields. Raises DeclarationError for types without a schema."""
    try:
        struct = msgspec.defstruct(
            f"{re.sub('[^A-Za-z0-9]', '', key.title())}Parameters",
            [_with_default_factory(field) for field in fields],
            frozen=True,
            kw_only=True,
            forbid_unknown_fields=True,
            rename=lambda name: name.removesuffix("_"),  # `pass` and `from` are Python keywords.
        )
        parameters_schema(struct)  # Types without a schema cannot be read from JSON.
    except (TypeError, ValueError, NotImplementedError) as error:
        raise DeclarationError(f"Evaluator {key!r}: unsupported parameter type: {error}") from None
    return struct


def parameters_schema(struct: type[msgspec.Struct]) -> dict[str, Any]:
    (top,), definitions = msgspec.json.schema_components((struct,), ref_template="#/$defs/{name}")
    schema: dict[str, Any] = definitions.pop(cast("str", top["$ref"]).rpartition("/")[2])
    for field in msgspec.structs.fields(struct):
        if field.default_factory is not msgspec.NODEFAULT:
            schema["properties"][field.encode_name]["default"] = msgspec.to_builtins(field.default_factory())
    document = {key: value for key, value in schema.items() if key not in ("title", "required")}
    document |= {"required": schema["required"]} if schema.get("required") else {}
    return document | ({"$defs": definitions} if definitions else {})


def read_parameters(struct: type[msgspec.Struct], parameters: Mapping[str, Any]) -> Any:
    """Read parameters. Raises InvalidValue with a pointer."""
    try:
        return msgspec.convert(dict(parameters), struct)
    except msgspec.ValidationError as error:
        raise _parameter_error(str(error), struct) from None


def _parameter_error(text: str, struct: type[msgspec.Struct]) -> InvalidValue:
    reason, _, path = text.partition(" - at `$")
    path = path.removesuffix("`")
    pointer = validation_error(f"{reason} - at `$.parameters{path}`").pointer
    if unknown := _UNKNOWN_FIELD_PATTERN.fullmatch(reason):
        if path:
            return InvalidValue(f"unknown field {unknown[1]!r} in {path[1:]!r}.", pointer=pointer)
        names = ", ".join(struct.__struct_encode_fields__)
        pointer = f"/parameters/{json.escape_pointer(unknown[1])}"
        return InvalidValue(f"unknown parameter {unknown[1]!r}. Available: {names}.", pointer=pointer)
    if missing := _MISSING_FIELD_PATTERN.fullmatch(reason):
        return InvalidValue(f"missing required parameter {f'{path}.{missing[1]}'[1:]!r}.", pointer=pointer)
    message = validation_error(f"{reason} - at `${path}`").message
    return InvalidValue(message.removeprefix("/"), pointer=pointer)


def _name_evaluator(error: InvalidValue, key: str) -> InvalidValue:
    """Name the evaluator in the message, unless it names an evaluator already, such as a child of `combine`."""
    if error.message.startswith("Evaluator "):
        return error
    return InvalidValue(f"Evaluator {key!r}: {error.message}", pointer=error.pointer)


def _with_default_factory(field: ParameterField) -> Any:
    if len(field) == 3 and isinstance(field[2], list | dict | set):
        factory: Callable[[], Any] = partial(copy.deepcopy, cast("Any", field[2]))
        return field[0], field[1], msgspec.field(default_factory=factory)
    return field


_MAX_REASON_LENGTH = 2_000


@dataclass(frozen=True, kw_only=True, eq=False)
class BoundEvaluator:
    name: str
    needs: frozenset[str]
    call: Callable[[Case], Any]
    is_async: bool
    target: Target | None
    threshold: float | None
    overrides_threshold: bool
    context: EvaluatorContext

    async def score(self, case: Case) -> list[ScoreRecord]:
        """Score a case. Errors are returned as scores; only cancellation and EvaluationAborted are raised."""
        start = time.perf_counter()
        with track_spending() as spending:
            records = await self._score(case)
        seconds = round(time.perf_counter() - start, 6)
        timed = [msgspec.structs.replace(record, seconds=seconds) for record in records]
        return [_add_spending(timed[0], spending), *timed[1:]]

    async def _score(self, case: Case) -> list[ScoreRecord]:
        if self.target is None and "expected" in self.needs and case.expected is UNSET:
            return [skipped_score(self.name, "no_expected: the row has no expected answer")]
        try:
            records = read_result(await self._call_function(case), self.name, self.threshold)
        except Skip as skip:
            return [skipped_score(self.name, str(skip))]
        except ScoringError as error:
            return [error_score(self.name, str(error))]
        except EvaluationAborted:
            raise
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            # The evaluator cancelled one of its own tasks.
            return [error_score(self.name, "evaluator_failed: CancelledError")]
        except (Exception, SystemExit) as error:
            return [error_score(self.name, f"evaluator_failed: {_describe_error(error)}")]
        return [self._complete(case, record) for record in records]

    async def _call_function(self, case: Case) -> Any:
        if self.is_async:
            return await self.call(case)
        context_vars, loop = contextvars.copy_context(), asyncio.get_running_loop()
        value, error = await loop.run_in_executor(
            self.context.executor, lambda: context_vars.run(_call_outcome, self.call, case)
        )
        if error is not None:
            raise error
        return await value if inspect.isawaitable(value) else value

    def _complete(self, case: Case, record: ScoreRecord) -> ScoreRecord:
        """Apply a threshold that was set explicitly, and add the note on missing text."""
        if record.status != "scored":
            return record
        if self.overrides_threshold and self.threshold is not None and record.score is not None:
            record = msgspec.structs.replace(record, passed=record.score >= self.threshold)
        if self.target is not None and case.notes and self.target.target == "text":
            notes = ", ".join(sorted(case.notes))
            record = msgspec.structs.replace(record, reason=f"{record.reason}; {notes}" if record.reason else notes)
        return record


def _add_spending(record: ScoreRecord, spending: Spending) -> ScoreRecord:
    """Add the spending, unless the evaluator reports its own. Of several scores, the first carries it all."""
    if record.usage is not None or record.cost is not None:
        return record
    return msgspec.structs.replace(record, usage=spending.usage, cost=spending.cost)


def _call_outcome(call: Callable[[Case], Any], case: Case) -> tuple[Any, BaseException | None]:
    """Return the result and None, or None and the exception: a future cannot carry StopIteration, for example."""
    try:
        return call(case), None
    except (Exception, SystemExit) as error:
        return None, error


def _describe_error(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:  # `str` of any exception may fail.
        text = ""
    return f"{type(error).__name__}: {text}"[:_MAX_REASON_LENGTH] if text else type(error).__name__


Need = Literal["expected", "chat", "tools", "events", "usage"]
ParameterCheck = Callable[[Any, EvaluatorContext], None]
"""Checks the parameters, a Struct, before any case is scored. Raises InvalidValue with a pointer."""

_Function = Callable[..., Any]
_KEY_PATTERN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}")
_KNOWN_TYPES = {"Case": Case, "Score": Score, "Target": Target, "EvaluatorContext": EvaluatorContext}


class Evaluator:
    """A function that scores a case. It can still be called as the original function."""

    def __init__(
        self,
        function: _Function,
        *,
        key: str,
        title: str,
        needs: frozenset[str],
        threshold: float | None,
        check: ParameterCheck | None,
    ) -> None:
        self.key = key
        self.title = title
        self.description = _first_paragraph(function)
        self.needs = needs
        self.function = function
        self._check = check
        self._is_async = inspect.iscoroutinefunction(underlying_callable(function))
        fields, injected = _read_signature(function, key)
        self._target_names = [name for name, type_ in injected.items() if type_ is Target]
        self._context_names = [name for name, type_ in injected.items() if type_ is EvaluatorContext]
        self._declared_names = frozenset(field[0] for field in fields)
        self.parameters = make_parameters_struct(
            key, _add_common_fields(fields, threshold, with_target=bool(self._target_names))
        )
        self.schema: dict[str, Any] = parameters_schema(self.parameters)
        self._threshold = None if "threshold" in self._declared_names else threshold
        functools.update_wrapper(self, function, updated=())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<evaluator {self.key}>"

    @property
    def place(self) -> str:
        """File and line of the function."""
        return source_location(self.function)

    def bind(
        self, parameters: Mapping[str, Any], context: EvaluatorContext, *, name: str | None = None
    ) -> BoundEvaluator:
        """Bind parameters. Raises InvalidValue, with a pointer /parameters/…, for invalid ones."""
        try:
            values, target = self._read_parameters(parameters, context)
        except InvalidValue as error:
            raise _name_evaluator(error, self.key) from None
        arguments: dict[str, Any] = {key: value for key, value in values.items() if key in self._declared_names}
        arguments |= dict.fromkeys(self._target_names, target) | dict.fromkeys(self._context_names, context)
        threshold = values.get("threshold")
        configured_name = values.get("name") if "name" not in self._declared_names else None
        return BoundEvaluator(
            name=name or configured_name or self.key,
            needs=self.needs,
            call=functools.partial(self.function, **arguments),
            is_async=self._is_async,
            target=target,
            threshold=threshold if isinstance(threshold, float | int) else None,
            overrides_threshold="threshold" not in self._declared_names and threshold != self._threshold,
            context=context,
        )

    def _read_parameters(
        self, parameters: Mapping[str, Any], context: EvaluatorContext
    ) -> tuple[dict[str, Any], Target | None]:
        """Return the values of all parameters, and the target if the function has one."""
        struct = read_parameters(self.parameters, parameters)
        values = msgspec.structs.asdict(struct)
        target = None
        if self._target_names:
            target = Target(**{field: values[field] for field in Target.__struct_fields__ if field in values})
            target.check()
        if self._check is not None:
            self._check(struct, context)
        return values, target


@overload
def evaluator(function: _Function, /) -> Evaluator: ...
@overload
def evaluator(
    *,
    key: str | None = None,
    title: str | None = None,
    threshold: float | None = None,
    needs: Iterable[Need] = (),
    check: ParameterCheck | None = None,
) -> Callable[[_Function], Evaluator]: ...
def evaluator(
    function: _Function | None = None,
    /,
    *,
    key: str | None = None,
    title: str | None = None,
    threshold: float | None = None,
    needs: Iterable[Need] = (),
    check: ParameterCheck | None = None,
) -> Evaluator | Callable[[_Function], Evaluator]:
    """Declare a function that scores a case.

    The first parameter of the function is the case; the others are the evaluator's parameters, validated against their
    annotations. It returns a boolean, a number, a label, a `Score`, a mapping, a list of named `Score`s, or None to
    skip. A sync function runs in a thread. The function can still be called directly.

    Args:
        function: The function. Omit it to pass only options: `@evaluator(threshold=0.7)`.
        key: Name in evaluations: letters, digits, `_`, `-` and `.`. By default, the name of the function.
        title: Name to show. By default, made from the key.
        threshold: Minimum score to pass. Without it, a score alone neither passes nor fails.
        needs: Data that it requires: any of `"expected"`, `"chat"`, `"tools"`, `"events"` and `"usage"`.
        check: Called with the parameters before any case is scored; raises `InvalidValue` to reject them.

    Raises:
        DeclarationError: The declaration is invalid: no parameter for the case, an invalid key, an unknown need, or a
            parameter whose type has no JSON Schema.

    Example:
        from palaver import Case, evaluator


        @evaluator(threshold=0.5)
        def polite(case: Case, words: list[str] = ["please", "thank you"]) -> float:
            return sum(word in case.text.lower() for word in words) / len(words)


        assert polite(Case(text="Yes, please."), words=["please"]) == 1.0
    """

    def declare(function: _Function) -> Evaluator:
        if not callable(function) or isinstance(function, type):
            raise DeclarationError(
                f"{function!r} is not an evaluator. Declare a function with a first parameter 'case'."
            )
        evaluator_key = key if key is not None else callable_name(function)
        if not _KEY_PATTERN.fullmatch(evaluator_key):
            raise DeclarationError(
                f"Invalid evaluator key {evaluator_key!r}: use at most 64 letters, digits, '_', '-' and '.'."
            )
        if unknown := ", ".join(sorted(set(needs) - set(get_args(Need)))):
            raise DeclarationError(
                f"Evaluator {evaluator_key!r}: unknown needs: {unknown}. Available: {', '.join(get_args(Need))}."
            )
        return Evaluator(
            function,
            key=evaluator_key,
            title=title or evaluator_key.replace("_", " ").capitalize(),
            needs=frozenset(needs),
            threshold=threshold,
            check=check,
        )

    return declare if function is None else declare(function)


# The function's signature


def _read_signature(function: _Function, key: str) -> tuple[list[ParameterField], dict[str, Any]]:
    """Return the parameters, and by name the types, Target or EvaluatorContext, of those that `bind` fills."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        raise DeclarationError(f"Evaluator {key!r}: cannot read its signature. Wrap it in a function.") from None
    hints = hints_of(unwrap_definition(function), extra_names=_KNOWN_TYPES)
    fields: list[ParameterField] = []
    injected: dict[str, Any] = {}
    if not parameters or parameters[0].kind not in (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
    ):
        raise DeclarationError(f"Evaluator {key!r}: missing the first parameter, 'case'.")
    for parameter in parameters[1:]:
        annotation = hints.get(parameter.name, Any)
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise DeclarationError(
                f"Evaluator {key!r}: parameter {parameter.name!r} is positional-only. Remove the '/' after it."
            )
        if strip_annotation(annotation) in (Target, EvaluatorContext):
            injected[parameter.name] = strip_annotation(annotation)
        else:
            fields.append(parameter_field(parameter, annotation))
    return fields, injected


def _add_common_fields(
    fields: Iterable[ParameterField], threshold: float | None, *, with_target: bool
) -> list[ParameterField]:
    """Return the function's parameters, followed by the common ones that it does not declare itself."""
    structs = (Target, ThresholdParameter, CommonParameters) if with_target else (CommonParameters,)
    fields_by_name = {field[0]: field for field in fields}
    for field in (field for struct in structs for field in struct_fields(struct)):
        fields_by_name.setdefault(field[0], (field[0], field[1], threshold) if field[0] == "threshold" else field)
    return list(fields_by_name.values())


def _first_paragraph(function: Any) -> str:
    definition = unwrap_definition(function)
    doc = definition.__doc__ if hasattr(definition, "__code__") else None
    return " ".join(inspect.cleandoc(doc or "").partition("\n\n")[0].split())
