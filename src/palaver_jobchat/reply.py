"""The end of a reply: closing text, the `code-edit` part and the `reply` part that clients read."""

from collections.abc import Iterator
from typing import Any, Literal

import msgspec

from palaver import Data, Failure
from palaver_jobchat import edit_report
from palaver_jobchat.adaptors.entries import AdaptorDocs
from palaver_jobchat.docs.previous_results import RagResults
from palaver_jobchat.edit_report import EditedJob
from palaver_jobchat.payload import Payload
from palaver_jobchat.stream_collector import StreamCollector

DONE = "I've updated the job code."
NOT_DONE = "I couldn't make this change to the job code."
NO_CHANGE = "The suggested edits don't change the job code."
CODE_POINTER = "/context/expression"
"""JSON Pointer to the code that an edit changes, in the workflow's inputs."""

FinishReason = Literal["stop", "content-filter"]


def require_content(collector: StreamCollector) -> None:
    """Raise Failure if the response was truncated, or has neither text nor edits."""
    assert collector.finished is not None
    details = {"stop_reason": collector.finished.raw or collector.finished.reason}
    if collector.finished.reason == "length":
        message = (
            "The model's answer was truncated at its output limit. "
            "Ask for a shorter answer, or increase PALAVER_JOBCHAT_MAX_TOKENS."
        )
        raise Failure("output_truncated", message, status=502, details=details)
    if not collector.text.strip() and (collector.finished.reason == "content-filter" or not collector.edits):
        raise Failure(
            "empty_output",
            "The model returned an empty response. Try again, or rephrase the question.",
            status=502,
            details=details,
        )


class ReplyBuilder(msgspec.Struct, frozen=True, kw_only=True):
    payload: Payload
    collector: StreamCollector
    model: str
    docs: AdaptorDocs | None
    rag: RagResults

    @property
    def finish(self) -> FinishReason:
        """The finish reason of the run. The tool call was handled here, so the run has simply stopped."""
        assert self.collector.finished is not None
        return "content-filter" if self.collector.finished.reason == "content-filter" else "stop"

    def outputs(self, edited: EditedJob | None) -> Iterator[str | Data]:
        """Yield the closing text, the `code-edit` part and the `reply` part."""
        yield from self._closing_text(edited)
        if edited is not None:
            value = edit_report.code_edit(edited, self.payload.context.page)
            yield Data(name="code-edit", value={**value, "input": CODE_POINTER})
        yield Data(name="reply", value=self._reply(edited))

    def _closing_text(self, edited: EditedJob | None) -> Iterator[str]:
        text = self.collector.text
        if not text.strip():
            assert edited is not None
            applied = [outcome for outcome in edited.result.outcomes if outcome.state == "applied"]
            failed = edited.result.failed
            text = DONE if applied and edited.result.suggested is not None else NOT_DONE if failed else NO_CHANGE
            yield text
        if edited is not None and (warning := edit_report.warning(edited)):
            yield f"{_paragraph_break(text)}Note: {warning}"

    def _reply(self, edited: EditedJob | None) -> dict[str, Any]:
        reply: dict[str, Any] = {"meta": {"rag": self.rag.meta(), "job_chat": self._meta()}}
        if self.payload.mode == "edits":
            reply["suggested_code"] = None if edited is None else edited.result.suggested
        if edited is not None:
            reply["application_status"] = edit_report.application_status(edited)
            reply["diff"] = edit_report.diff(edited)
        return reply

    def _meta(self) -> dict[str, Any]:
        page = self.payload.context.page
        return {
            "model": self.model,
            "finish": self.finish,
            **({} if page is None else {"page": page}),
            "adaptor": {"docs": "none"} if self.docs is None else self.docs.meta(),
        }


def _paragraph_break(text: str) -> str:
    return "" if text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
