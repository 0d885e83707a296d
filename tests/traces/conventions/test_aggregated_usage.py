"""The usage of an agent run as a whole: used only where no call reports its own."""

from palaver.core.messages import Usage
from palaver.traces.conventions import pydantic_ai
from palaver.traces.span_mapper import to_span
from tests.traces.conventions.convention_cases import FOREIGN, raw, read_fields

AGENT_RUN = {
    "gen_ai.aggregated_usage.input_tokens": 50,
    "gen_ai.aggregated_usage.output_tokens": "16",
    "gen_ai.aggregated_usage.cache_read.input_tokens": 4,
    "gen_ai.aggregated_usage.cache_creation.input_tokens": 3,
}


def test_its_fields() -> None:
    assert read_fields(pydantic_ai, AGENT_RUN) == {
        "input_tokens": 50,
        "output_tokens": 16,
        "cached_input_tokens": 4,
        "cache_creation_input_tokens": 3,
    }
    assert read_fields(pydantic_ai, FOREIGN) == {}
    assert set(read_fields(pydantic_ai, {"gen_ai.aggregated_usage.input_tokens": -1})) == {"notes"}


def test_it_is_asked_last() -> None:
    total, counted = Usage(50, 16, 4, 3), {"llm.token_count.prompt": 7}

    assert to_span(raw(AGENT_RUN), project="p").usage == total
    assert to_span(raw({**AGENT_RUN, **counted}), project="p").usage == Usage(7, 16, 4, 3)
    all_counted = {**AGENT_RUN, **counted, "llm.token_count.completion": 8}
    assert to_span(raw(all_counted), project="p").usage == Usage(7, 8)
