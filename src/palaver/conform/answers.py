"""Answers that are no stream: the refusal of a bad request, E2 to E4."""

from palaver.conform.findings import Findings, as_object, cut, number_in, object_in, shown, text_in
from palaver.core import json


def check_refusal(findings: Findings, status: int, body: bytes) -> None:
    """The answer to a request that nobody can read."""
    if not 400 <= status < 500:
        findings.broke("E2", None, f"the answer is {status}: {_said(body)}")
        return
    text = body.decode("utf-8", "replace")
    value = json.parse_or_text(text)
    if findings.protocol == "ui-stream":
        if not text.strip() or not isinstance(value, str):
            findings.broke("E3", None, f"the body is {_said(body)}")
        return
    told = as_object(value) or {}
    if findings.protocol == "services":
        if number_in(told, "code") != status or not text_in(told, "message") or not text_in(told, "type"):
            findings.broke("E3", None, f"the body is {_said(body)}")
        return
    error = object_in(told, "error") or {}
    if not text_in(error, "message"):
        findings.broke("E3", None, f"the body is {_said(body)}")
    elif not error.keys() >= {"type", "code", "param"} or not text_in(told, "detail"):
        findings.broke("E4", None, f"the body is {_said(body)}")


def _said(body: bytes) -> str:
    return shown(cut(body[:1000].decode("utf-8", "replace"), 200)) if body else "nothing"
