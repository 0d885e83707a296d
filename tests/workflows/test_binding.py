"""Binding a call to the function's arguments, with all errors reported."""

import dataclasses
import datetime as dt
from typing import Annotated, Any, Literal, Self, TypedDict

import msgspec
import pydantic
import pytest

from palaver.core.runs import Call
from palaver.errors import FaultyCall
from palaver.workflows.binding import bind
from palaver.workflows.decorators import workflow
from palaver.workflows.signature import Parameter, read_signature


@dataclasses.dataclass
class DataConfig:
    low: float
    high: float = 1.0
    stop: list[str] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


class StructConfig(msgspec.Struct, kw_only=True, rename="camel"):
    low: float
    high: float = 1.0
    stop: list[str] = []

    def __post_init__(self) -> None:
        if self.low > self.high:
            raise ValueError("low is above high")


class BaseConfig(pydantic.BaseModel):
    low: float
    high: float = pydantic.Field(1.0, le=10)
    stop: list[str] = []

    @pydantic.model_validator(mode="after")
    def in_order(self) -> Self:
        if self.low > self.high:
            raise ValueError("low is above high")
        return self


class TypedConfig(TypedDict, total=False):
    low: float
    high: float


class Inner(pydantic.BaseModel):
    depth: int


class Outer(pydantic.BaseModel):
    inner: Inner = Inner(depth=1)


CONFIG_TYPES = [DataConfig, StructConfig, BaseConfig]


def bind_call(function: Any, inputs: dict[str, Any] | None = None, parameters: dict[str, Any] | None = None) -> Any:
    signature = read_signature(function, is_chat="messages" in function.__annotations__, name="w")
    values, faults = bind(signature, inputs or {}, parameters or {})
    return values if not faults else [(fault.code, fault.pointer, fault.message) for fault in faults]


# Inputs


def headline(
    text: str,
    words: int = 8,
    style: Literal["loud", "quiet"] = "quiet",
    on: dt.date | None = None,
    heat: Annotated[float, Parameter()] = 0.2,
) -> str: ...


def test_inputs_are_read_and_python_defaults_are_left_to_python() -> None:
    assert bind_call(headline, {"text": "a"}) == {"text": "a"}
    assert bind_call(headline, {"text": "a", "words": 4, "style": "loud", "on": "2026-01-02"}, {"heat": 1}) == {
        "text": "a",
        "words": 4,
        "style": "loud",
        "on": dt.date(2026, 1, 2),
        "heat": 1.0,
    }


def test_null_is_passed_only_where_the_type_allows_it() -> None:
    assert bind_call(headline, {"text": "a", "on": None}) == {"text": "a", "on": None}
    assert bind_call(headline, {"text": None}) == [
        ("invalid_input", "/inputs/text", "Input 'text' must be a string, not null.")
    ]


def test_every_fault_is_listed_with_its_pointer() -> None:
    assert bind_call(
        headline, {"words": "8", "style": "shrill", "colour": 1, "a/b~c": 2}, {"heat": "hot", "cold": 0}
    ) == [
        ("missing_input", "/inputs/text", "Input 'text' is required."),
        ("invalid_input", "/inputs/words", "Input 'words' must be an integer, not a string."),
        ("invalid_input", "/inputs/style", "Input 'style' has an invalid value: 'shrill'."),
        ("unknown_input", "/inputs/colour", "Unknown input 'colour'. Available: text, words, style, on."),
        ("unknown_input", "/inputs/a~1b~0c", "Unknown input 'a/b~c'. Available: text, words, style, on."),
        ("invalid_parameter", "/parameters/heat", "Parameter 'heat' must be a number, not a string."),
        ("unknown_parameter", "/parameters/cold", "Unknown parameter 'cold'. Available: heat."),
    ]


def test_a_fault_inside_an_input_has_a_nested_pointer() -> None:
    def f(inner: list[Inner], config: Outer) -> None: ...

    assert bind_call(f, {"inner": [{"depth": 1}, {"depth": "1"}, {}]}, {"inner": {"depth": "1"}}) == [
        (
            "invalid_input",
            "/inputs/inner/1/depth",
            "Input 'inner' at /1/depth is invalid: Input should be a valid integer.",
        ),
        ("invalid_input", "/inputs/inner/2/depth", "Input 'inner' at /2/depth is invalid: Field required."),
        (
            "invalid_parameter",
            "/parameters/inner/depth",
            "Parameter 'inner' at /depth is invalid: Input should be a valid integer.",
        ),
    ]


def test_a_function_without_inputs_lists_none_as_known() -> None:
    def f() -> None: ...

    assert bind_call(f, {"x": 1}, {"y": 1}) == [
        ("unknown_input", "/inputs/x", "Unknown input 'x'. Available: none."),
        ("unknown_parameter", "/parameters/y", "Unknown parameter 'y'. Available: none."),
    ]


def test_a_long_name_is_cut_in_the_message() -> None:
    def f() -> None: ...

    ((_, pointer, message),) = bind_call(f, {"x" * 500: 1})

    assert pointer == "/inputs/" + "x" * 500
    assert message == f"Unknown input '{'x' * 80}'. Available: none."


def test_a_call_lists_at_most_twenty_faults() -> None:
    @workflow
    def f() -> None: ...

    with pytest.raises(FaultyCall) as refused:
        f.bind(Call(workflow="f", inputs={f"x{n:02}": n for n in range(30)}))

    assert [fault.pointer for fault in refused.value.faults] == [f"/inputs/x{n:02}" for n in range(20)]
    assert (refused.value.code, refused.value.pointer) == ("unknown_input", "/inputs/x00")


def test_keyword_arguments_take_unknown_inputs() -> None:
    def f(text: str, **more: Any) -> None: ...

    assert bind_call(f, {"text": "a", "colour": {"b": None}}) == {"text": "a", "colour": {"b": None}}


@pytest.mark.parametrize("name", ["messages", "ctx", "config", "heat"])
def test_keyword_arguments_do_not_take_the_names_of_other_parameters(name: str) -> None:
    def f(
        messages: Any,
        ctx: Any = None,
        config: TypedConfig | None = None,
        heat: Annotated[float, Parameter()] = 0.2,
        **more: Any,
    ) -> None: ...

    assert bind_call(f, {name: "evil"}) == [
        ("unknown_input", f"/inputs/{name}", f"Unknown input {name!r}. Available: none.")
    ]


# Parameters


def test_a_marked_parameter_without_a_default_is_required() -> None:
    def f(heat: Annotated[float, Parameter()], top: Annotated[int, Parameter()] = 1) -> None: ...

    assert bind_call(f, {}, {"heat": 1, "top": 2}) == {"heat": 1.0, "top": 2}
    assert bind_call(f) == [("invalid_parameter", "/parameters/heat", "Parameter 'heat' is required.")]


def function_with_config(kind: Any, *default: Any) -> Any:
    def f(config): ...

    f.__annotations__ = {"config": kind}
    f.__defaults__ = default
    return f


@pytest.mark.parametrize("kind", CONFIG_TYPES)
def test_a_config_is_built_from_the_parameters(kind: Any) -> None:
    assert bind_call(function_with_config(kind), {}, {"low": 0, "stop": ["."]}) == {"config": kind(low=0.0, stop=["."])}


@pytest.mark.parametrize("kind", CONFIG_TYPES)
def test_a_config_takes_missing_parameters_from_its_default(kind: Any) -> None:
    default = kind(low=0.5, high=5.0)

    assert bind_call(function_with_config(kind, default)) == {}
    assert bind_call(function_with_config(kind, default), {}, {"low": 2}) == {"config": kind(low=2.0, high=5.0)}


@pytest.mark.parametrize("kind", CONFIG_TYPES)
def test_all_faults_of_a_config_are_listed(kind: Any) -> None:
    faults = bind_call(function_with_config(kind), {}, {"high": "1", "stop": "x", "odd": 1})

    assert [(code, pointer) for code, pointer, _ in faults] == [
        ("invalid_parameter", "/parameters/high"),
        ("invalid_parameter", "/parameters/stop"),
        ("unknown_parameter", "/parameters/odd"),
        ("invalid_parameter", "/parameters/low"),
    ]
    assert faults[-1][2] == "Parameter 'low' is required."


@pytest.mark.parametrize("kind", CONFIG_TYPES)
def test_a_config_may_reject_a_combination_of_valid_fields(kind: Any) -> None:
    ((code, pointer, message),) = bind_call(function_with_config(kind), {}, {"low": 3})

    assert (code, pointer) == ("invalid_parameter", "/parameters")
    assert message.startswith("Invalid parameters: ")
    assert message.endswith("low is above high.")


def test_the_constraints_of_a_pydantic_config_are_checked() -> None:
    assert bind_call(function_with_config(BaseConfig), {}, {"low": 0, "high": 11}) == [
        (
            "invalid_parameter",
            "/parameters/high",
            "Parameter 'high' is invalid: Input should be less than or equal to 10.",
        )
    ]


def test_a_config_whose_fields_all_have_defaults_needs_no_parameters() -> None:
    assert bind_call(function_with_config(Outer)) == {"config": Outer()}
    assert bind_call(function_with_config(TypedConfig)) == {"config": {}}
    assert bind_call(function_with_config(TypedConfig), {}, {"low": 1}) == {"config": {"low": 1.0}}


def test_an_optional_config_is_built_only_if_parameters_are_given() -> None:
    f = function_with_config(DataConfig | None, None)

    assert bind_call(f) == {}
    assert bind_call(f, {}, {"low": 0}) == {"config": DataConfig(low=0.0)}
    assert bind_call(f, {}, {"high": 2}) == [("invalid_parameter", "/parameters/low", "Parameter 'low' is required.")]


def test_a_config_may_hold_a_value_that_callers_cannot_send() -> None:
    class Client: ...

    @dataclasses.dataclass
    class Settings:
        client: Client
        heat: float = 0.2

    client = Client()

    assert bind_call(function_with_config(Settings, Settings(client)), {}, {"heat": 1}) == {
        "config": Settings(client, 1.0)
    }


def test_an_error_message_with_final_punctuation_gets_no_full_stop() -> None:
    class Strict(msgspec.Struct):
        low: float = 0

        def __post_init__(self) -> None:
            raise ValueError("Never!")

    assert bind_call(function_with_config(Strict), {}, {"low": 1}) == [
        ("invalid_parameter", "/parameters", "Invalid parameters: Never!")
    ]
