"""The end of an answer: what has to be said after the model's words, and the fields that clients read."""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import msgspec

from palaver import Data, Failure
from palaver_jobchat import edit_report
from palaver_jobchat.adaptors.folder import AdaptorDocs
from palaver_jobchat.docs.rag import RagResults
from palaver_jobchat.edits import EditResult
from palaver_jobchat.javascript import Syntax
from palaver_jobchat.payload import Payload
from palaver_jobchat.rules import Finding
from palaver_jobchat.stream_collector import StreamCollector, UsageCounter

CUT_OFF = "Note: this answer was cut off at its length limit."
DONE = "I've updated the job code."
NOT_DONE = "I could not make this change to the job code."
NO_CHANGE = "This changes nothing in the job code."
PLACE = "/context/expression"
"""Where in the inputs the code stands that an edit changes."""

Finish = Literal["stop", "length", "content-filter"]


class EditedJob(msgspec.Struct, frozen=True):
    """A job after the edits that were asked for."""

    result: EditResult
    syntax: Syntax
    correction_error: str | None
    """The type of the error that the correction ended with."""
    findings: Sequence[Finding] = ()

    @property
    def warning(self) -> str | None:
        """What is wrong with it."""
        return edit_report.warning(self.result, self.syntax, self.correction_error)


def require_content(heard: StreamCollector, spending: UsageCounter) -> None:
    """An answer that says nothing is a failure."""
    assert heard.stopped is not None
    if heard.text.strip():
        return
    details = {"stop_reason": heard.stopped.raw or heard.stopped.reason, "usage": spending.told()}
    if heard.stopped.reason == "length":
        message = "The model's answer was cut off before it said anything: ask for less, or raise MAX_TOKENS."
        raise Failure("output_truncated", message, status=502, details=details)
    if heard.stopped.reason == "content-filter" or not heard.edits:
        raise Failure(
            "empty_output", "The model answered nothing: ask again, or differently.", status=502, details=details
        )


class ReplyBuilder(msgspec.Struct, frozen=True, kw_only=True):
    """What is told of one answer."""

    payload: Payload
    heard: StreamCollector
    model: str
    docs: AdaptorDocs | None
    rag: RagResults

    @property
    def finish(self) -> Finish:
        """How it ended. A call of our tool is no reason to stop: the run did what it asked for."""
        assert self.heard.stopped is not None
        reason = self.heard.stopped.reason
        return "stop" if reason == "tool-calls" else reason

    def say(self, changed: EditedJob | None) -> Iterator[str | Data]:
        """The last words, the change, and the fields of the reply."""
        yield from self._words(changed)
        if changed is not None:
            value = edit_report.code_edit(changed.result, changed.syntax, self.payload.context.page)
            if changed.result.suggested is not None:  # Else nothing was checked, and none may be told of.
                value["findings"] = [msgspec.to_builtins(finding) for finding in changed.findings]
            yield Data(name="code-edit", value={**value, "input": PLACE})
        yield Data(name="reply", value=self._reply(changed))

    def _words(self, changed: EditedJob | None) -> Iterator[str]:
        text = self.heard.text
        if not text.strip():
            assert changed is not None
            applied = [outcome for outcome in changed.result.outcomes if outcome.state == "applied"]
            failed = changed.result.failed
            text = DONE if applied and changed.result.suggested is not None else NOT_DONE if failed else NO_CHANGE
            yield text
        if self.finish == "length":
            yield f"{_between(text)}{CUT_OFF}"
        elif changed is not None and changed.warning:
            yield f"{_between(text)}Note: {changed.warning}"

    def _reply(self, changed: EditedJob | None) -> dict[str, Any]:
        reply: dict[str, Any] = {"meta": {"rag": self.rag.meta(), "job_chat": self._meta()}}
        if self.payload.mode == "edits":
            reply["suggested_code"] = None if changed is None else changed.result.suggested
        if changed is not None:
            reply["application_status"] = edit_report.application_status(
                changed.result, changed.syntax, changed.warning
            )
            reply["diff"] = edit_report.diff(changed.result, changed.warning)
        return reply

    def _meta(self) -> dict[str, Any]:
        page = self.payload.context.page
        return {
            "model": self.model,
            "finish": self.finish,
            **({} if page is None else {"page": page}),
            "adaptor": {"docs": "none"} if self.docs is None else self.docs.meta(),
        }


def _between(text: str) -> str:
    """What makes the next words a paragraph of their own."""
    return "" if text.endswith("\n\n") else "\n" if text.endswith("\n") else "\n\n"
