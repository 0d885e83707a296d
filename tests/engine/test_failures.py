"""Failures of runs: Palaver's errors keep their messages, other exceptions are hidden and logged."""

from typing import Any

import pytest

from palaver.core.events import RunCancelled, RunFailed, TextEnded
from palaver.engine.failures import failure_event, sanitize_failure, unrecorded_end
from palaver.errors import BadStream, Failure, InvalidMessages, PalaverError, RunTimeout
from tests.engine.run_factory import NOW


class Run:
    id = "run_1"
    name = "tutor"


class Mute(Exception):
    def __str__(self) -> str:
        raise LookupError("no words")


GENERIC_MESSAGE = "The workflow failed (run run_1)."

CASES: list[tuple[BaseException, RunFailed]] = [
    (LookupError("secret"), RunFailed(code="workflow_failed", message=GENERIC_MESSAGE)),
    (SystemExit("secret"), RunFailed(code="workflow_failed", message=GENERIC_MESSAGE)),
    (BadStream("Bytes."), RunFailed(code="bad_stream", message="Bytes.")),
    (RunTimeout("Too long."), RunFailed(code="timeout", message="Too long.")),
    (PalaverError("Odd."), RunFailed(code="internal", message="Odd.")),
    (InvalidMessages("None.", pointer="/messages"), RunFailed(code="invalid_messages", message="None.")),
    (Failure("full", "No room at all."), RunFailed(code="full", message="No room at all.")),
    (
        Failure("full", "No room.", status=507, details={"left": 0}),
        RunFailed(code="full", message="No room.", status=507, details={"left": 0}),
    ),
    (Failure("odd", "Odd.", status=99), RunFailed(code="odd", message="Odd.", status=500)),
    (ExceptionGroup("one", [Failure("full", "No room.")]), RunFailed(code="full", message="No room.")),
    (
        ExceptionGroup("one", [ExceptionGroup("one", [Failure("full", "No room.")])]),
        RunFailed(code="full", message="No room."),
    ),
    (
        ExceptionGroup("two", [Failure("full", "No room."), LookupError("secret")]),
        RunFailed(code="workflow_failed", message=GENERIC_MESSAGE),
    ),
]


@pytest.mark.parametrize(("error", "expected"), CASES, ids=[repr(error)[:50] for error, _ in CASES])
def test_each_exception_becomes_its_failure_event(error: BaseException, expected: RunFailed) -> None:
    assert failure_event(error, Run(), debug=False) == expected


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LookupError("secret"), f"{GENERIC_MESSAGE} LookupError: secret"),
        (LookupError("lone \udcff"), f"{GENERIC_MESSAGE} LookupError: lone \ufffd"),
        (Mute(), f"{GENERIC_MESSAGE} Mute"),
        (Failure("full", "No room."), "No room."),
    ],
    ids=["text", "lone surrogate", "mute", "ours"],
)
def test_debug_mode_adds_an_unexpected_exception_to_the_message(error: BaseException, message: str) -> None:
    assert failure_event(error, Run(), debug=True).message == message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (LookupError("secret"), f"{GENERIC_MESSAGE} LookupError: secret. Trace: http://localhost/traces/7"),
        (LookupError("Why?"), f"{GENERIC_MESSAGE} LookupError: Why? Trace: http://localhost/traces/7"),
        (Failure("full", "No room."), "No room."),
    ],
)
def test_the_message_may_end_with_the_address_of_the_trace(error: BaseException, message: str) -> None:
    event = failure_event(error, Run(), debug=True, trace_url="http://localhost/traces/7")

    assert event.message == message


def test_an_unexpected_exception_is_logged_with_its_traceback(caplog: pytest.LogCaptureFixture) -> None:
    try:
        raise LookupError("secret")
    except LookupError as error:
        failure_event(error, Run(), debug=False)

    assert "The workflow tutor failed (run run_1)." in caplog.text
    assert "Traceback" in caplog.text


def test_a_failure_raised_on_purpose_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    failure_event(Failure("full", "No room."), Run(), debug=False)

    assert caplog.text == ""


def test_code_message_and_details_of_a_failure_are_made_json_safe() -> None:
    odd: Any = Failure(507, "Lone \udcff", details={"lone": "\udcff", "at": NOW})  # type: ignore[arg-type]
    opaque = Failure("full", "No room.", details={"it": object()})

    assert failure_event(odd, Run(), debug=False) == RunFailed(
        code="507", message="Lone \ufffd", details={"lone": "\ufffd", "at": "2026-01-02T03:04:05Z"}
    )
    assert failure_event(opaque, Run(), debug=False) == RunFailed(
        code="full",
        message="No room.",
        details={"details": "omitted: a value of type dict that is not JSON-serializable (unsupported type object)"},
    )
    assert sanitize_failure(RunFailed(seq=4, code="a", message="b", at=NOW)) == RunFailed(
        seq=4, code="a", message="b", at=NOW
    )


def test_an_end_that_could_not_be_recorded_is_replaced_by_a_failure() -> None:
    last = [TextEnded(3, item="i", text="Hi."), RunCancelled(4, at=NOW)]

    assert unrecorded_end(OSError("disk full"), Run(), last) == [
        TextEnded(3, item="i", text="Hi."),
        RunFailed(
            4, code="overloaded", message="The run ended, but its outcome could not be stored. Try again later.", at=NOW
        ),
    ]


KEY = "odd-key.of-the-caller"


def test_secrets_of_the_caller_are_masked_in_the_failure_and_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    failure = Failure(f"bad {KEY}", f"No: {KEY}, short", details={KEY: [f"<{KEY}>", 7, None]})

    assert failure_event(failure, Run(), debug=False, secrets=[KEY, "short"]) == RunFailed(
        code="bad ***", message="No: ***, short", details={"***": ["<***>", 7, None]}
    )  # Short values are not masked: they occur in many texts.
    assert (
        failure_event(LookupError(KEY), Run(), debug=True, secrets=[KEY]).message
        == f"{GENERIC_MESSAGE} LookupError: ***"
    )
    assert "LookupError: ***" in caplog.text
    assert KEY not in caplog.text


def test_an_exception_whose_str_raises_is_logged_while_secrets_are_masked(caplog: pytest.LogCaptureFixture) -> None:
    assert failure_event(Mute(), Run(), debug=False, secrets=[KEY]).message == GENERIC_MESSAGE
    assert "Mute" in caplog.text
