"""For every rule a stream that breaks only that rule, reported with the offending frame."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import msgspec
import pytest

from palaver.conform import RULES, Protocol, grade, grade_body, grade_refusal, grade_unanswered
from palaver.conform.rules import SERVICE_RULES
from tests.conform import streams
from tests.conform.streams import (
    DONE,
    ERROR,
    Frame,
    call,
    chunk,
    part,
    piece,
    renumber,
    result,
    rule_violations,
    run,
    sse,
    text,
)

Violations = list[tuple[str, int | None]]
Case = tuple[list[Frame], Violations]


def edit(frames: list[Frame], *changes: tuple[int, Callable[[Any], Any]]) -> list[Frame]:
    """A copy with the frames at these indexes changed."""
    copy = msgspec.json.decode(msgspec.json.encode(frames))  # No frame shares anything with another.
    for index, change in changes:
        change(copy[index])
    return copy


def set_fields(**fields: Any) -> Callable[[Frame], None]:
    return lambda frame: frame.update(fields)


def update(*path: str | int, **fields: Any) -> Callable[[Any], None]:
    """Update the fields of the object at a path inside a frame."""

    def change(value: Any) -> None:
        for step in path:
            value = value[step]
        value.update(fields)

    return change


def drop(*path: str | int) -> Callable[[Any], None]:
    def change(value: Any) -> None:
        for step in path[:-1]:
            value = value[step]
        del value[path[-1]]

    return change


def without(frames: list[Frame], *indexes: int) -> list[Frame]:
    return renumber([frame for index, frame in enumerate(frames) if index not in indexes])


def move(frames: list[Frame], index: int, to: int) -> list[Frame]:
    remaining = [*frames[:index], *frames[index + 1 :]]
    return renumber([*remaining[:to], frames[index], *remaining[to:]])


# Of TOOL_ROUND: 0 created, 1 in_progress, 2-6 the call, 7-8 its result, 9-14 the text, 15 completed.
TOOLS = streams.TOOL_ROUND
TEXT = run(text("msg_1", "It ", "is"))  # 2 added, 3 part, 4-5 deltas, 6 text done, 7 part done, 8 done, 9 completed
CITED_TEXT = run(text("msg_1", "It ", "is", annotations=[streams.CITATION]))  # 6 annotation, 9 done


def update_both(index: int, *path: str | int, **fields: Any) -> list[tuple[int, Callable[[Any], None]]]:
    """Change the item of a done frame and its copy in the terminal output."""
    return [(index, update("item", *path, **fields)), (-1, update("response", "output", -1, *path, **fields))]


RESPONSES: dict[str, Case] = {
    "I1 nothing is created": (without(TOOLS, 0), [("I1", 0)]),
    "I1 created again": (renumber([*TOOLS[:2], *TOOLS[:1], *TOOLS[2:]]), [("I1", 2)]),
    "I1 a frame of no item": (renumber([*TOOLS[:2], part("response.odd"), *TOOLS[2:]]), [("I1", 2)]),
    "I1 the trace too early": ([*TOOLS[:15], {"trace_id": "tr-0"}, *TOOLS[15:]], [("I1", 15)]),
    "I2 another response": (edit(TOOLS, (15, update("response", id="resp_2"))), [("I2", 15)]),
    "I3 cut": (TOOLS[:15], [("I3", 16)]),
    "I3 two ends": (renumber([*TOOLS, TOOLS[15]]), [("I3", 16)]),
    "I3 more after the end": (renumber([*TOOLS, TOOLS[1]]), [("I3", 16)]),
    "I4 a gap": (TOOLS[:1] + TOOLS[2:], [("I4", 1)]),
    "I4 none": (edit(TOOLS, (3, drop("sequence_number"))), [("I4", 3)]),
    "I4 a boolean": (edit(TOOLS, (1, set_fields(sequence_number=True))), [("I4", 1)]),
    "I5 added at the wrong place": (edit(TEXT, *((n, set_fields(output_index=1)) for n in range(2, 9))), [("I5", 2)]),
    "I5 a delta of another place": (edit(TEXT, (4, set_fields(output_index=1))), [("I5", 4)]),
    "I5 done under another id": (edit(TEXT, *update_both(8, id="msg_2")), [("I5", 8)]),
    "I5 done as another call": (edit(TOOLS, (7, update("item", call_id="c9"))), [("I5", 8)]),
    "I5 done as another type": (
        edit(run(result("c0", "x")), (2, update("item", type="message", content=[]))),
        [("I5", 3), ("I11", 3)],
    ),
    "I6 an id twice": (
        run(text("msg_1", "a"), text("msg_1", "b")),
        [("I6", 8), *(("I7", n) for n in range(9, 14)), ("I12", 14)],
    ),
    "I6 a call twice": (
        edit(run(call("c1", "{}"), call("c2", "{}")), (6, update("item", call_id="c1")), *update_both(9, call_id="c1")),
        [("I6", 9)],
    ),
    "I7 never done": (
        edit(without(TEXT, 8), (-1, update("response", output=[]))),
        [("I7", 8)],
    ),
    "I7 a delta after done": (renumber([*TEXT[:9], TEXT[4], TEXT[9]]), [("I7", 9)]),
    "I7 done twice": (renumber([*TEXT[:9], *TEXT[8:]]), [("I7", 9)]),
    "I7 a delta after the text's done": (move(TEXT, 5, 6), [("I9", 5), ("I7", 6), ("I9", 7), ("I9", 8)]),
    "I7b a delta before its item": (without(TEXT, 2), [("I7b", 2)]),
    "I7b a delta before its part": (move(TEXT, 4, 3), [("I7b", 3)]),
    "I7b a part twice": (renumber([*TEXT[:4], *TEXT[3:]]), [("I7b", 4)]),
    "I7b a part done without its beginning": (
        without(run(streams.reasoning("rs_1", "a")), 3),
        [("I7b", 3), ("I7b", 4), ("I7b", 5)],
    ),
    "I7b a text without done": (without(TEXT, 6), [("I7b", 7)]),
    "I7b a part without done": (without(TEXT, 7), [("I7b", 7)]),
    "I7b a call without the done of its arguments": (without(run(call("c2")), 3), [("I7b", 3)]),
    "I7b done all at once": (without(run(result("c1", "x")), 2), [("I7b", 2), ("I11", 2)]),
    "I8 an item inside another": (move(move(TOOLS, 7, 3), 8, 4), [("I8", 3), ("I11", 4)]),
    "I8 frames of two items by turns": (
        move(run(call("c1", "a"), call("c2", "b")), 6, 4),
        [("I8", 4), ("I8", 5), ("I8", 6)],
    ),
    "I9 the done text differs": (edit(TEXT, (6, set_fields(text="It was"))), [("I9", 6)]),
    "I9 the part differs": (edit(TEXT, (7, update("part", text="It was"))), [("I9", 7)]),
    "I9 the item differs": (edit(TEXT, *update_both(8, "content", 0, text="It was")), [("I9", 8)]),
    "I9 the arguments differ": (edit(TOOLS, (5, set_fields(arguments="{}"))), [("I9", 5)]),
    "I9 a piece of the arguments is missing": (without(TOOLS, 4), [("I9", 4), ("I9", 5)]),
    "I9 a refusal differs": (edit(run(streams.refusal("m", "No.")), (5, set_fields(refusal="Yes."))), [("I9", 5)]),
    "I9 reasoning differs": (edit(run(streams.reasoning("r", "No.")), (5, set_fields(text="Yes."))), [("I9", 5)]),
    "I10 a second part": (
        edit(TEXT, *((n, set_fields(content_index=1)) for n in range(3, 8))),
        [*(("I10", n) for n in range(3, 8)), ("I9", 8)],
    ),
    "F3 an index that is none": (edit(TEXT, (4, set_fields(output_index="0"))), [("F3", 4)]),
    "F3 a status that is none": (edit(TEXT, *update_both(8, status=[])), [("F3", 8)]),
    "I15 no summary": (edit(run(streams.reasoning("r", "No.")), *update_both(7, summary=None)), [("I15", 7)]),
    "I15 a summary without text": (
        edit(run(streams.reasoning("r", "No.")), *update_both(7, summary=[{}])),
        [("I15", 7)],
    ),
    "F3 metadata of another type": (edit(TEXT, (9, update("response", metadata=[]))), [("F3", 9)]),
    "F3 an annotation that is none": (
        edit(CITED_TEXT, (6, set_fields(annotation=[]))),
        [("F3", 6), ("I10b", 8), ("I10b", 9)],
    ),
    "F3 arguments that are none": (edit(run(call("c1", "{}")), (2, update("item", arguments=None))), [("F3", 2)]),
    "I9 arguments twice": (
        edit(run(call("c1", "{}")), (2, update("item", arguments="{}"))),
        [("I9", 4), ("I9", 5)],
    ),
    "F3 no content_index": (edit(TEXT, (4, drop("content_index"))), [("F3", 4)]),
    "I10b annotations from one": (edit(CITED_TEXT, (6, set_fields(annotation_index=1))), [("I10b", 6)]),
    "I10b an annotation before the last delta": (move(CITED_TEXT, 6, 5), [("I10b", 6)]),
    "I10b an annotation that nobody added": (without(CITED_TEXT, 6), [("I10b", 7), ("I10b", 8)]),
    "I11 a result of no call": (run(result("c1", "x")), [("I11", 3)]),
    "I11 a result twice": (
        edit(
            run(call("c1"), result("c1", "x"), result("c1", "y")),
            *update_both(8, id="fco_2"),
            (7, update("item", id="fco_2")),
        ),
        [("I11", 8)],
    ),
    "I12 an item left out": (edit(TOOLS, (15, drop("response", "output", 1))), [("I12", 15)]),
    "I12 another text": (edit(TEXT, (9, update("response", "output", 0, "content", 0, text="It was"))), [("I12", 9)]),
    "I12b another status": (edit(TEXT, (9, update("response", "output", 0, status="incomplete"))), [("I12b", 9)]),
    "I12 no item at all": (edit(TEXT, (9, update("response", output=[7]))), [("I12", 9)]),
    "I13 no error": (without(streams.FAILED, 8), [("I13", 8)]),
    "I13 an error though it completed": (renumber([*TEXT[:9], streams.FAILED[8], TEXT[9]]), [("I13", 10)]),
    "I13b not nested": (edit(streams.FAILED, (8, drop("error"))), [("I13b", 8)]),
    "I13b not flat": (edit(streams.FAILED, (8, drop("param"))), [("I13b", 8)]),
    "I14 an own event": (renumber([*TEXT[:9], part("palaver:data", value=1), TEXT[9]]), [("I14", 9)]),
    "I14 a plural": (renumber([*TEXT[:9], part("responses.completed"), TEXT[9]]), [("I14", 9)]),
    "I14b an unknown item": (run(streams.single({"type": "odd", "id": "o"})), [("I14b", 3)]),
    "I15 a null id": (edit(TEXT, *update_both(8, id=None)), [("I15", 8), ("I7", 9), ("I12", 9)]),
    "I15 a null output": (
        edit(run(call("c1"), result("c1", "x")), *update_both(6, output=None)),
        [("I15", 6)],
    ),
    "I15 a null call id": (
        edit(run(call("c1")), (2, update("item", call_id=None)), *update_both(4, call_id=None)),
        [("I15", 4)],
    ),
    "I15 another role": (edit(TEXT, *update_both(8, role="user")), [("I15", 8)]),
    "I15 no content": (edit(TEXT, *update_both(8, content=[])), [("I15", 8)]),
    "I15 a part without type": (edit(TEXT, *update_both(8, content=[{}])), [("I15", 8)]),
    "I15 annotations of null": (edit(TEXT, *update_both(8, "content", 0, annotations=None)), [("I15", 8)]),
    "I15b an empty text": (run(text("msg_1")), [("I15b", 6)]),
    "I15b an empty refusal": (run(streams.refusal("msg_1", "")), [("I15b", 7)]),
    "B1 no object": (edit(TEXT, (1, update("response", object="answer"))), [("B1", 1)]),
    "B1 the wrong status": (edit(TEXT, (9, update("response", status="in_progress"))), [("B1", 9)]),
    "B1 failed without a word": (edit(streams.FAILED, (9, update("response", error={"code": 1}))), [("B1", 9)]),
    "B1 cancelled without a reason": (
        edit(streams.CANCELLED, (8, update("response", incomplete_details=None))),
        [("B1", 8)],
    ),
    "B2 a key is missing": (edit(TEXT, (9, drop("response", "metadata"))), [("B2", 9)]),
    "B2 a key is null": (edit(TEXT, (9, update("response", tools=None))), [("B2", 9)]),
    "B4 usage without details": (edit(TEXT, (9, drop("response", "usage", "input_tokens_details"))), [("B4", 9)]),
    "B4 usage of another type": (edit(TEXT, (9, update("response", usage=7))), [("B4", 9)]),
    "F3 no type": ([*TEXT[:9], {"x": 1}, TEXT[9]], [("F3", 9)]),
    "F3 no response": (edit(TEXT, (1, set_fields(response=None))), [("F3", 1)]),
    "F3 no output": (edit(TEXT, (1, update("response", output={}))), [("F3", 1)]),
    "F3 no item": (
        renumber([*TEXT[:9], part("response.output_item.added", output_index=1), TEXT[9]]),
        [("F3", 9)],
    ),
    "F3 no item id": (renumber([*TEXT[:9], part("response.x.delta", item_id=None), TEXT[9]]), [("F3", 9)]),
    "F3 content of null": (edit(TEXT, (2, update("item", content=None))), [("F3", 2)]),
    "F3 a delta that is no text": (
        edit(TEXT, (4, set_fields(delta=7))),
        [("F3", 4), *(("I9", n) for n in (6, 7, 8))],
    ),
    "F3 no part": (edit(TEXT, (7, set_fields(part=None))), [("F3", 7), ("I7b", 8)]),
    "F3 an error without message": (edit(streams.FAILED, (8, set_fields(message=None, error=None))), [("F3", 8)]),
}  # fmt: skip

MLFLOW_TEXT = run(text("msg_1", "It ", "is"), protocol="invocations")  # 9 responses.completed, 10 completed
INVOCATIONS: dict[str, Case] = {
    "I14 an own event that does not say so": (
        renumber([*MLFLOW_TEXT[:9], part("odd"), *MLFLOW_TEXT[9:]]),
        [("I14", 9)],
    ),
    "I14 an own item": (run(streams.single(streams.DATA), protocol="invocations"), [("I14", 3)]),
    "I15 an output that is no string": (
        edit(run(call("c1"), result("c1", "x"), protocol="invocations"), *update_both(6, output=[])),
        [("I15", 6)],
    ),
    "F3 a status that MLflow does not know": (edit(MLFLOW_TEXT, *update_both(8, status="failed")), [("F3", 8)]),
    "I17 no usage": (edit(MLFLOW_TEXT, (9, drop("response", "usage"))), [("I17", 9)]),
    "I17b left out": (without(MLFLOW_TEXT, 9), [("I17b", 9)]),
    "I18 a refusal": (run(streams.refusal("msg_1", "No."), protocol="invocations"), [("I18", 7)]),
    "I18 a file citation": (
        run(text("msg_1", "a", annotations=[{"type": "file_citation"}]), protocol="invocations"),
        [("I18", 8)],
    ),
    "B3 a null": (edit(MLFLOW_TEXT, (10, update("response", error=None))), [("B3", 10)]),
}

CHAT = streams.CHAT
CHAT_WITH_USAGE = streams.CHAT_WITH_USAGE
COMPLETIONS: dict[str, Case] = {
    "C1 another object": (edit(CHAT, (2, set_fields(object="chunk"))), [("C1", 2)]),
    "C1 another id": (edit(CHAT, (2, set_fields(id="chatcmpl-2"))), [("C1", 2)]),
    "C1b another model": (edit(CHAT, (2, set_fields(model="x"))), [("C1b", 2)]),
    "C1b no time": (edit(CHAT, (2, drop("created"))), [("C1b", 2)]),
    "C2 two choices": (edit(CHAT, (2, set_fields(choices=CHAT[2]["choices"] * 2))), [("C2", 2)]),
    "C2 no choice": ([*CHAT[:2], chunk(choices=[]), *CHAT[2:]], [("C2", 2)]),
    "C2 a second answer": (edit(CHAT, (2, update("choices", 0, index=1))), [("C2", 2)]),
    "C2 a choice that is none": ([*CHAT[:2], chunk(choices=[7]), *CHAT[2:]], [("C2", 2)]),
    "C2b no finish_reason": (edit(CHAT, (2, drop("choices", 0, "finish_reason"))), [("C2b", 2)]),
    "C3 no role": (CHAT[1:], [("C3", 0)]),
    "C3b a role again": (edit(CHAT, (2, update("choices", 0, "delta", role="assistant"))), [("C3b", 2)]),
    "C3 no choice at all": ([], [("C3", 1), ("C4", 1)]),
    "C4 cut": (CHAT[:-1], [("C4", 9)]),
    "C4 an odd reason": (edit(CHAT, (8, update("choices", 0, finish_reason="bored"))), [("C4", 8)]),
    "C4b a last word": (edit(CHAT, (8, update("choices", 0, "delta", content="Bye"))), [("C4b", 8)]),
    "C5 a word after the end": ([*CHAT, CHAT[2]], [("C5", 9)]),
    "C5 a word after usage": ([*CHAT_WITH_USAGE, CHAT_WITH_USAGE[2]], [("C5", 10), ("C5", 10)]),
    "C5 a word after an error": ([*streams.CHAT_FAILED, CHAT[2]], [("C5", 5)]),
    "C5 an error after the end": ([*CHAT, {"error": ERROR}], [("C5", 9)]),
    "C6 usage beside a choice": (edit(CHAT_WITH_USAGE[:-1], (8, set_fields(usage=streams.CHAT_USAGE))), [("C6", 8)]),
    "C6 usage before the end": ([*CHAT_WITH_USAGE[:8], CHAT_WITH_USAGE[9]], [("C6", 8), ("C4", 10)]),
    "C6 usage in some chunks": (edit(CHAT_WITH_USAGE, (2, drop("usage"))), [("C6", 2)]),
    "C6 usage all of a sudden": ([*CHAT, CHAT_WITH_USAGE[-1]], [("C6", 9)]),
    "C7 a call from one": (edit(CHAT, (7, update("choices", 0, "delta", "tool_calls", 0, index=2))), [("C7", 7)]),
    "C7 a call without id": (edit(CHAT, (7, drop("choices", 0, "delta", "tool_calls", 0, "id"))), [("C7", 7)]),
    "C7 a call twice": (edit(CHAT, (7, update("choices", 0, "delta", "tool_calls", 0, id="c1"))), [("C7", 7)]),
    "C7 a name again": (
        edit(CHAT, (5, update("choices", 0, "delta", "tool_calls", 0, "function", name="x"))),
        [("C7", 5)],
    ),
    "C8 calls by turns": ([*CHAT[:8], chunk(piece(0, " ")), CHAT[8]], [("C8", 8)]),
    "C9 no call": ([*CHAT[:4], CHAT[8]], [("C9", 4)]),
    "C10 an empty delta": ([*CHAT[:2], chunk({"content": ""}), *CHAT[2:]], [("C10", 2)]),
    "C11 no message": ([*CHAT[:4], {"error": "gone"}], [("C11", 4)]),
    "F3 no choices": (edit(CHAT, (2, set_fields(choices=None))), [("F3", 2)]),
    "F3 no delta": (edit(CHAT, (2, update("choices", 0, delta=None))), [("F3", 2)]),
    "F3 logprobs of another type": (edit(CHAT, (2, update("choices", 0, logprobs=[1]))), [("F3", 2)]),
    "F3 content of another type": ([*CHAT[:2], chunk({"content": 7}), *CHAT[2:]], [("F3", 2), ("C10", 2)]),
    "F3 calls of another type": ([*CHAT[:2], chunk({"tool_calls": {}}), *CHAT[2:]], [("F3", 2), ("C10", 2)]),
    "F3 arguments as an object": (
        edit(CHAT, (6, update("choices", 0, "delta", "tool_calls", 0, "function", arguments={}))),
        [("F3", 6)],
    ),
    "F3 usage of another type": ([*CHAT_WITH_USAGE[:-1], chunk(choices=[], usage=[1])], [("F3", 9)]),
}  # fmt: skip

UI = streams.UI  # 2-5 the tool, 6 finish-step, 7 start-step, 8-10 the text, 11 finish-step, 12 finish
TOOL_INPUT = part("tool-input-available", toolCallId="c9", toolName="x", input={})
PARTS: dict[str, Case] = {
    "U1 an unknown type": ([*UI[:2], part("odd"), *UI[2:]], [("U1", 2)]),
    "U1 a type of version 7": ([*UI[:2], part("custom"), *UI[2:]], [("U1", 2)]),
    "U2 no start": (UI[1:], [("U2", 0)]),
    "U2 start again": ([*UI[:2], *UI[:1], *UI[2:]], [("U2", 2)]),
    "U2 no id": (edit(UI, (0, drop("messageId"))), [("U2", 0)]),
    "U3 cut": (UI[:-1], [("U3", 13)]),
    "U3 cut in the middle of a text": (UI[:10], [("U6", 11), ("U3", 11)]),
    "U3 more after the end": ([*UI, part("data-x", data=1)], [("U3", 13)]),
    "U4 outside a step": ([*UI[:1], *UI[2:]], [("U4", n) for n in range(1, 6)]),
    "U4 a step inside a step": ([*UI[:6], *UI[7:]], [("U4", 6)]),
    "U4 the last step is open": ([*UI[:11], UI[12]], [("U4", 11)]),
    "U5 a delta before its start": ([*UI[:8], *UI[9:]], [("U5", 8), ("U5", 9)]),
    "U5 a delta after its end": ([*UI[:11], UI[9], *UI[11:]], [("U5", 11)]),
    "U5 a start twice": ([*UI[:9], *UI[8:]], [("U5", 9)]),
    "U5b an id again": ([*UI[:11], *UI[8:]], [("U5b", 11)]),
    "U6 a text that is not ended": ([*UI[:10], *UI[11:]], [("U6", 10)]),
    "U6 a text that an abort cuts": ([*UI[:10], part("abort")], [("U6", 10)]),
    "U7 an output of no call": (
        [*UI[:6], part("tool-output-error", toolCallId="c8", errorText="x"), *UI[6:]],
        [("U7", 6)],
    ),
    "U7 an output before its input": ([*UI[:4], UI[5], UI[4], *UI[6:]], [("U7", 4)]),
    "U7 an output twice": ([*UI[:6], *UI[5:]], [("U7", 6)]),
    "U7 a delta of no input": ([*UI[:2], *UI[3:]], [("U7", 2)]),
    "U7 an input twice": ([*UI[:5], *UI[4:]], [("U7", 5)]),
    "U7 a start twice": ([*UI[:3], *UI[2:]], [("U7", 3)]),
    "U7 an input that is never available": ([*UI[:4], *UI[6:]], [("U7", 10)]),
    "U7 another name": (edit(UI, (4, set_fields(toolName="x"))), [("U7", 4)]),
    "U7 an approval of no call": (
        [*UI[:2], part("tool-approval-request", approvalId="a", toolCallId="c8"), *UI[2:]],
        [("U7", 2)],
    ),
    "U8b an output in a later step": ([*UI[:5], *UI[6:8], UI[5], *UI[11:]], [("U8b", 7)]),
    "U9 a text in the step of an output": ([*UI[:6], *UI[8:]], [("U9", 6)]),
    "U10 another input": (edit(UI, (4, set_fields(input={}))), [("U10", 4)]),
    "U11 it finished well": (edit(streams.UI_FAILED, (13, set_fields(finishReason="stop"))), [("U11", 13)]),
    "U12 an odd reason": (edit(UI, (12, set_fields(finishReason="bored"))), [("U12", 12)]),
    "F3 no type": ([*UI[:2], {"x": 1}, *UI[2:]], [("F3", 2)]),
    "F3 a delta that is no text": (edit(UI, (9, set_fields(delta=7))), [("F3", 9)]),
    "F3 data without data": ([*UI[:2], part("data-x"), *UI[2:]], [("F3", 2)]),
}  # fmt: skip

CASES_BY_PROTOCOL: dict[Protocol, dict[str, Case]] = {
    "responses": RESPONSES,
    "invocations": INVOCATIONS,
    "chat-completions": COMPLETIONS,
    "ui-stream": PARTS,
}
CASES = [(protocol, name, *case) for protocol, table in CASES_BY_PROTOCOL.items() for name, case in table.items()]


@pytest.mark.parametrize(
    ("protocol", "frames", "expected"), [(p, f, t) for p, _, f, t in CASES], ids=[f"{c[0]}: {c[1]}" for c in CASES]
)
def test_a_broken_rule_is_reported_with_its_frame(
    protocol: Protocol, frames: list[Frame], expected: Violations
) -> None:
    assert rule_violations(grade(sse(frames, protocol), protocol)) == expected


VALID = sse(TEXT)
FRAMING: dict[str, tuple[Protocol, bytes, Violations]] = {
    "F1 not JSON": ("responses", VALID + b"data: {\n\n", [("F6", 11), ("F1", 11)]),
    "F1 no object": ("ui-stream", sse(UI, "ui-stream", end=b"data: 7\n\n" + DONE), [("F1", 13)]),
    "F1 not UTF-8": ("ui-stream", sse(UI, "ui-stream", end=b'data: "\xff"\n\n' + DONE), [("F1", 13)]),
    "F1 nothing": ("ui-stream", b'{"type": "start"}\n', [("F1", 0), ("U3", 0)]),
    "F2 not closed": ("responses", VALID[:-1], [("F2", 10)]),
    "F2 cut in a line": ("responses", VALID[:-2], [("F2", 10)]),
    "F4 no event line": ("responses", sse(TEXT[:1], "invocations", end=b"") + sse(TEXT[1:]), [("F4", 0)]),
    "F4 another name": ("responses", VALID.replace(b"event: response.created", b"event: x"), [("F4", 0)]),
    "F4 a name where none belongs": ("invocations", b"event: x\n" + sse(MLFLOW_TEXT, "invocations"), [("F4", 0)]),
    "F4 an id": ("responses", b"id: 1\nretry: 2\n" + VALID, [("F4", 0)]),
    "F4 a comment inside": ("responses", b": hello\n" + VALID, [("F4", 0)]),
    "F6 two ends": ("responses", VALID + DONE, [("F6", 11)]),
    "I3b no [DONE]": ("responses", sse(TEXT, end=b""), [("I3b", 10)]),
    "I3b no [DONE] on invocations": ("invocations", sse(MLFLOW_TEXT, "invocations", end=b""), [("I3b", 11)]),
    "C12 no [DONE]": ("chat-completions", sse(CHAT, "chat-completions", end=b""), [("C12", 9)]),
    "U13 no [DONE]": ("ui-stream", sse(UI, "ui-stream", end=b""), [("U13", 13)]),
}


@pytest.mark.parametrize(("protocol", "stream", "expected"), FRAMING.values(), ids=FRAMING.keys())
def test_broken_framing_is_reported(protocol: Protocol, stream: bytes, expected: Violations) -> None:
    assert rule_violations(grade(stream, protocol)) == expected


def test_a_tool_output_in_a_later_step_breaks_a_must_rule_only_in_version_5() -> None:
    stream = sse(PARTS["U8b an output in a later step"][0], "ui-stream")

    assert rule_violations(grade(stream, "ui-stream", ui_version=5)) == [("U8", 7)]
    assert (grade(stream, "ui-stream", ui_version=5, strict=False).ok, grade(stream, "ui-stream", strict=False).ok) == (
        False,
        True,
    )


def test_allowed_ui_part_types_depend_on_the_version() -> None:
    approval = [*UI[:2], TOOL_INPUT, part("tool-approval-request", approvalId="a", toolCallId="c9"), *UI[2:]]
    custom = [*UI[:2], part("custom"), part("reasoning-file"), *UI[2:]]

    assert rule_violations(grade(sse(approval, "ui-stream"), "ui-stream", ui_version=5)) == [("U1", 3)]
    assert rule_violations(grade(sse(custom, "ui-stream"), "ui-stream", ui_version=7)) == []


def test_response_headers_are_graded_with_the_stream() -> None:
    good = {"Content-Type": "text/event-stream; charset=utf-8", "X-Vercel-AI-UI-Message-Stream": "v1"}
    stream = sse(UI, "ui-stream")

    assert rule_violations(grade(stream, "ui-stream", headers=good)) == []
    assert rule_violations(grade(stream, "ui-stream", headers={"content-type": "text/plain"})) == [
        ("F5", None),
        ("U14", None),
    ]


BODY: Any = TOOLS[-1]["response"]
COMPLETION = streams.CHAT_WHOLE
MESSAGE_PATH = ("choices", 0, "message")


def edit_body(value: Any, change: Callable[[Any], Any]) -> Any:
    copy = deepcopy(value)
    change(copy)
    return copy


BODIES: dict[str, tuple[Protocol, list[Frame], Any, list[str]]] = {
    "another body": ("responses", TOOLS, BODY | {"model": "x"}, ["I16"]),
    "a key left out": ("responses", TOOLS, edit_body(BODY, drop("usage")), ["B2", "I16"]),
    "a body for a failed run": ("responses", streams.FAILED, BODY, ["I16"]),
    "no object": ("responses", TOOLS, [], ["F3"]),
    "not JSON": ("responses", TOOLS, b"<html>", ["F3"]),
    "an item that is none": ("responses", TOOLS, BODY | {"output": [7]}, ["F3", "I16"]),
    "a null item id": ("responses", TOOLS, edit_body(BODY, update("output", 0, id=None)), ["I15", "I16"]),
    "another text": ("chat-completions", CHAT, edit_body(COMPLETION, update(*MESSAGE_PATH, content="x")), ["C14"]),
    "no error": ("chat-completions", streams.CHAT_FAILED, COMPLETION, ["C14"]),
    "no completion": ("chat-completions", CHAT, {"object": "chat.completion"}, ["C13"]),
    "no answer": ("chat-completions", CHAT, [], ["C13"]),
    "another role": ("chat-completions", CHAT, edit_body(COMPLETION, update(*MESSAGE_PATH, role="user")), ["C13"]),
}


@pytest.mark.parametrize(("protocol", "frames", "response_body", "expected"), BODIES.values(), ids=BODIES.keys())
def test_a_body_that_differs_from_the_stream_is_reported(
    protocol: Protocol, frames: list[Frame], response_body: Any, expected: list[str]
) -> None:
    stream = sse(frames, protocol)

    assert rule_violations(grade(stream, protocol, body=response_body)) == [(rule, None) for rule in expected]
    assert rule_violations(grade_body(response_body, protocol, stream=stream)) == [(rule, None) for rule in expected]


def test_a_body_of_another_run_may_differ_but_not_be_empty() -> None:
    stream, other = sse(TOOLS), run(text("msg_9", "Twelve."))[-1]["response"] | {"id": "resp_2"}
    silent, odd = other | {"output": []}, other | {"more": 1}
    odd["output"] = [other["output"][0] | {"more": 1}]

    def broken_rules(response_body: Any) -> list[str]:
        return [
            one.rule
            for one in grade_body(response_body, "responses", stream=stream, body_from="another-run").violations
        ]

    assert (broken_rules(other), broken_rules(silent), broken_rules(odd)) == ([], ["I16"], ["I16b", "I16b"])


def test_a_completion_of_another_run_may_differ_but_not_be_empty() -> None:
    stream = sse(CHAT, "chat-completions")
    message = {"role": "assistant", "content": "Noon."}
    other = edit_body(COMPLETION, update("choices", 0, message=message, finish_reason="stop"))
    silent = edit_body(other, update(*MESSAGE_PATH, content=""))

    def broken_rules(response_body: Any) -> list[str]:
        graded = grade_body(response_body, "chat-completions", stream=stream, body_from="another-run")
        return [one.rule for one in graded.violations]

    assert (broken_rules(other), broken_rules(silent)) == ([], ["C14"])


def test_a_body_can_be_graded_without_a_stream() -> None:
    assert grade_body(BODY, "responses").violations == ()
    assert grade_body(COMPLETION, "chat-completions").violations == ()
    assert grade_body(b"anything", "ui-stream").ok is False


ERROR_BODY = (
    b'{"error":{"message":"No.","type":"invalid_request","code":"invalid_type","param":"input"},"detail":"No."}'
)
ERROR_RESPONSES: dict[str, tuple[Protocol, int, bytes, list[str]]] = {
    "as the contract says": ("responses", 400, ERROR_BODY, []),
    "a line of text": ("ui-stream", 400, b"messages must be a list", []),
    "answered": ("responses", 200, b"{}", ["E2"]),
    "a crash": ("chat-completions", 500, b"", ["E2"]),
    "no error": ("responses", 422, b'{"detail": []}', ["E3"]),
    "no JSON": ("chat-completions", 400, b"\xff<html>", ["E3"]),
    "JSON where text is shown": ("ui-stream", 400, ERROR_BODY, ["E3"]),
    "nothing to show": ("ui-stream", 400, b"", ["E3"]),
    "a short error": ("responses", 400, b'{"error":{"message":"No."}}', ["E4"]),
}


@pytest.mark.parametrize(
    ("protocol", "status", "body", "expected"), ERROR_RESPONSES.values(), ids=ERROR_RESPONSES.keys()
)
def test_the_refusal_of_a_bad_request_is_graded(
    protocol: Protocol, status: int, body: bytes, expected: list[str]
) -> None:
    assert rule_violations(grade_refusal(status, body, protocol)) == [(rule, None) for rule in expected]


def test_an_unanswered_prompt_is_reported() -> None:
    report = grade_unanswered("the answer is 500", "responses")

    assert (rule_violations(report), report.ok) == ([("E1", None)], False)
    assert str(report) == (f"responses, 0 frames: E1 (must): the answer is 500\n    rule: {RULES['E1'].text}")


def test_every_rule_is_broken_by_a_test_of_this_file() -> None:
    broken_rules = {rule for *_, broke in CASES for rule, _ in broke}
    broken_rules |= {rule for *_, broke in FRAMING.values() for rule, _ in broke}
    broken_rules |= {rule for *_, rules in BODIES.values() for rule in rules}
    broken_rules |= {rule for *_, rules in ERROR_RESPONSES.values() for rule in rules}

    service_rules = {rule.id for rule in SERVICE_RULES}  # In test_services.py.
    assert broken_rules | {"E1", "F5", "I16b", "U8", "U14"} | service_rules == set(RULES)
