"""What an agent's calls come to: told of the whole, and believed only where nobody counts otherwise."""

from palaver.core.messages import Usage
from palaver.traces.conventions import pydantic_ai
from palaver.traces.span_mapper import to_span
from tests.traces.conventions.convention_cases import FOREIGN, raw, read_fields

WHOLE = {
    "gen_ai.aggregated_usage.input_tokens": 50,
    "gen_ai.aggregated_usage.output_tokens": "16",
    "gen_ai.aggregated_usage.cache_read.input_tokens": 4,
    "gen_ai.aggregated_usage.cache_creation.input_tokens": 3,
}


def test_its_fields() -> None:
    assert read_fields(pydantic_ai, WHOLE) == {
        "input_tokens": 50,
        "output_tokens": 16,
        "cached_input_tokens": 4,
        "cache_creation_input_tokens": 3,
    }
    assert read_fields(pydantic_ai, FOREIGN) == {}
    assert set(read_fields(pydantic_ai, {"gen_ai.aggregated_usage.input_tokens": -1})) == {"notes"}


def test_it_is_asked_last() -> None:
    whole, counted = Usage(50, 16, 4, 3), {"llm.token_count.prompt": 7}

    assert to_span(raw(WHOLE), project="p").usage == whole
    assert to_span(raw({**WHOLE, **counted}), project="p").usage == Usage(7, 16, 4, 3)
    all_counted = {**WHOLE, **counted, "llm.token_count.completion": 8}
    assert to_span(raw(all_counted), project="p").usage == Usage(7, 8)
