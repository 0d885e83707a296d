"""OTLP over HTTP: requests as spans, spans as requests again, and what a sender is answered. Knows no server.

spans = decode(unpacked(body, content_encoding), content_type, now)
answer = taken(spans.rejected, form_of(content_type))
"""

from palaver.traces.otlp.answers import MEDIA_TYPES, refused, refused_spans, taken
from palaver.traces.otlp.decoding import decode
from palaver.traces.otlp.encoding import Request, encode, requests
from palaver.traces.otlp.spans import Batch, Rejected
from palaver.traces.otlp.unpacking import LIMITS, Form, Limits, form_of, unpacked

__all__ = [
    "decode",
    "encode",
    "requests",
    "Request",
    "unpacked",
    "form_of",
    "taken",
    "refused",
    "refused_spans",
    "Batch",
    "Rejected",
    "Form",
    "Limits",
    "LIMITS",
    "MEDIA_TYPES",
]
