"""The aggregated usage of an agent run: used only for counts that no call reports."""

from palaver.core.messages import Usage
from palaver.traces.conventions import pydantic_ai
from palaver.traces.span_mapper import to_span
from tests.traces.conventions.convention_cases import UNRELATED_ATTRIBUTES, raw_span, read_fields

AGENT_RUN = {
    "gen_ai.aggregated_usage.input_tokens": 50,
    "gen_ai.aggregated_usage.output_tokens": "16",
    "gen_ai.aggregated_usage.cache_read.input_tokens": 4,
    "gen_ai.aggregated_usage.cache_creation.input_tokens": 3,
}


def test_aggregated_usage_sets_the_token_counts() -> None:
    assert read_fields(pydantic_ai, AGENT_RUN) == {
        "input_tokens": 50,
        "output_tokens": 16,
        "cached_input_tokens": 4,
        "cache_creation_input_tokens": 3,
    }
    assert read_fields(pydantic_ai, UNRELATED_ATTRIBUTES) == {}
    assert set(read_fields(pydantic_ai, {"gen_ai.aggregated_usage.input_tokens": -1})) == {"notes"}


def test_reported_token_counts_take_precedence_over_aggregated_usage() -> None:
    total, reported = Usage(50, 16, 4, 3), {"llm.token_count.prompt": 7}

    assert to_span(raw_span(AGENT_RUN), project="p").usage == total
    assert to_span(raw_span({**AGENT_RUN, **reported}), project="p").usage == Usage(7, 16, 4, 3)
    all_reported = {**AGENT_RUN, **reported, "llm.token_count.completion": 8}
    assert to_span(raw_span(all_reported), project="p").usage == Usage(7, 8)
