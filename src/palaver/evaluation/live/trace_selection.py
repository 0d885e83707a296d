"""Which live traces a rule selects: by its filter, and by a sample.

The sample is decided by a hash of the trace or session id, so a trace is always in or always out.
"""

from hashlib import blake2b
from typing import Any

from palaver.errors import InvalidValue
from palaver.storage.evaluations.live_evaluators import LiveEvaluator
from palaver.storage.spans import filters as span_filters
from palaver.storage.spans.filters import Filter, FilterCondition, FilterGroup
from palaver.storage.spans.queries import SpanArrival, SpanQuery

_OWN_TRACES_EXCLUDED = (
    FilterCondition("attribute", "palaver.protocol", "ne", ("evaluation",)),
    FilterCondition("field", "kind", "ne", ("evaluator",)),
)
"""Traces of evaluations and judges are never scored."""


def trace_query(rule: LiveEvaluator) -> SpanQuery:
    filters = () if rule.filter is None else (parse_trace_filter(rule.filter),)
    return SpanQuery(filter=FilterGroup("and", (*filters, *_OWN_TRACES_EXCLUDED)))


def parse_trace_filter(document: Any, pointer: str = "/filter") -> Filter:
    """Parse the filter of a rule. Raises InvalidValue for conditions that are unknown when a trace arrives."""
    parsed = span_filters.parse_filter(document, pointer)
    if any(leaf.source == "field" and leaf.name == "feedback" for leaf in span_filters.list_conditions(parsed)):
        raise InvalidValue(
            "Live evaluators can't filter on feedback, which arrives after a trace is scored.", pointer=pointer
        )
    return parsed


def is_sampled(subject: str, sample: float) -> bool:
    """Whether a trace or session is in the sample; deterministic."""
    number = int.from_bytes(blake2b(subject.encode(errors="replace"), digest_size=8).digest())
    return number < sample * (1 << 64)


def is_selected(rule: LiveEvaluator, arrival: SpanArrival) -> bool:
    """Whether the trace has a root and is sampled.

    A run of this server counts as a root, because its caller may never report one. It is scored after
    a longer wait, in case a root span of the caller still arrives.
    """
    row = arrival.row
    subject = row.session if rule.session else row.trace_id
    has_root = row.parent_id is None or row.run_id is not None
    return has_root and subject is not None and is_sampled(subject, rule.sample)
