"""Attributes that Palaver records in addition to gen_ai's. From other senders they are plain labels.

Run, project and key are not read here: `span_mapper` trusts them only from Palaver's own recorder.
"""

from collections.abc import Mapping
from typing import Any

from msgspec import UNSET, UnsetType

from palaver.core.json import is_object
from palaver.traces.conventions.attributes import AttributeReader, SpanFields
from palaver.traces.conventions.vocabulary import parse_finish
from palaver.traces.model import ConventionName, RawSpan

NAME: ConventionName = "palaver"
ROOTS: frozenset[str] = frozenset(("palaver",))


def read_fields(raw: RawSpan) -> SpanFields:
    reader = AttributeReader(raw.attributes)
    return SpanFields(
        inputs=reader.json("palaver.inputs"),
        outputs=reader.json("palaver.value"),
        parameters=_parameters(reader),
        cost=reader.amount("palaver.cost"),
        finish=parse_finish(reader.value("palaver.finish")),
        user=reader.label("palaver.user"),
        notes=tuple(reader.notes),
    )


def _parameters(reader: AttributeReader) -> Mapping[str, Any] | UnsetType:
    parameters = reader.json("palaver.parameters")
    return parameters if is_object(parameters) else UNSET
