"""The items of a response while they arrive, from OpenAI's servers, MLflow's or ours, as events.

Servers agree on the text and differ in the rest. MLflow's send pieces of items that were never added; some change an
item's id on the way, give several items one id, or say in the end what they said before. What was said is not said
twice, and the item of a piece is found by its id, else by its place, else by its kind.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from palaver.core.dialects import responses as content
from palaver.core.dialects import responses as dialect
from palaver.core.dialects.common import Object, argument_text, as_list, dict_or_empty, optional_int, optional_str
from palaver.core.events import (
    Event,
    PartAdded,
    ReasoningDelta,
    ReasoningEnded,
    ReasoningStarted,
    TextDelta,
    TextEnded,
    TextStarted,
    ToolDelta,
    ToolEnded,
    ToolReturned,
    ToolStarted,
)
from palaver.core.messages import APPROVAL_REQUEST, Annotation, Data, File, Part, Reasoning, Refusal, Text
from palaver.protocols.response_known import Item, Items, Kind, Strand


class Arrivals:
    """Frames about items in, events out."""

    def __init__(self) -> None:
        self._items = Items()
        self._whole: set[str] = set()  # The ids of those that came whole.
        self._calls: dict[str, str] = {}  # What the remote calls a call -> its id here, which no other call has.
        self._answered: set[str] = set()

    def feed(self, frame: Object) -> Iterator[Event]:
        """What one frame tells. Most tell nothing: of a thing that matters its item tells when it is done."""
        index, delta = optional_int(frame.get("content_index")) or 0, optional_str(frame.get("delta")) or ""
        match frame.get("type"):
            case "response.output_text.delta":
                yield from self._say(self._items.found("message", frame), index, delta)
            case "response.output_text.done":
                item = self._items.found("message", frame)
                yield from self._say(item, index, item.rest(optional_str(frame.get("text")) or "", index))
            case "response.output_text.annotation.added":
                if text := self._items.found("message", frame).texts.get(index):
                    text.notes.append(frame.get("annotation"))
            case "response.refusal.done":
                yield from self._refuse(
                    self._items.found("message", frame), index, optional_str(frame.get("refusal")) or ""
                )
            case "response.reasoning_summary_text.delta":
                at = optional_int(frame.get("summary_index")) or 0
                yield from self._think(self._items.found("reasoning", frame), "summary", at, delta)
            case "response.reasoning_text.delta":
                yield from self._think(self._items.found("reasoning", frame), "content", index, delta)
            case "response.function_call_arguments.delta" | "response.custom_tool_call_input.delta":
                yield from self._argue(self._items.found("function_call", frame), delta)
            case "response.output_item.added":
                yield from self._added(dict_or_empty(frame.get("item")), frame)
            case "response.output_item.done":
                yield from self._done(dict_or_empty(frame.get("item")), frame)
            case "palaver:data" | "palaver:file":
                yield from self.part({**frame, "id": frame.get("item_id")}, transient=frame.get("transient") is True)
            case _:
                pass

    def late(self, output: Sequence[Any]) -> Iterator[Event]:
        """What the whole output says beyond its frames: all of it where there were none."""
        count = self._items.count
        for index, fields in enumerate(map(dict_or_empty, output)):
            known = self._items.known(optional_str(fields.get("id")) or "")
            # An id that nobody has heard of belongs to an item that came under another, unless no more came.
            if index >= count if known is None else not known.is_over:
                yield from self._done(fields, {})

    def part(self, fields: Object, *, transient: bool = False) -> Iterator[Event]:
        """An item that is a part: one of ours, an approval, or one that is kept as it is."""
        given = optional_str(fields.get("id")) or ""
        if given in self._whole:
            return
        if given:
            self._whole.add(given)
        for part in (part for said in dialect.read([fields]) if said.role == "assistant" for part in said.parts):
            if isinstance(part, Data) and part.name == APPROVAL_REQUEST:
                yield from self._close_texts()
                call = {"call_id": self._calls[given]} if given in self._calls else {}
                yield PartAdded(part=Data(name=part.name, value={**part.value, **call}))
            else:
                yield from self._add(part, self._items.fresh(given) if given else "", "", transient=transient)

    # Items

    def _close(self, item: Item, *, is_done: bool = True) -> Iterator[Event]:
        """End an item, and what it has open."""
        for index, text in item.texts.items():
            if text.is_open:
                yield from self._end(item, index)
        item.is_over, item.is_done = True, is_done
        self._items.open = [one for one in self._items.open if one is not item]

    def _close_texts(self) -> Iterator[Event]:
        """A call, its result or an approval ends what is being said: what comes after it is another text."""
        for item in [one for one in self._items.open if one.kind != "function_call" and one.texts]:
            yield from self._close(item, is_done=False)

    def _end(self, item: Item, index: int, notes: tuple[Annotation, ...] = ()) -> Iterator[Event]:
        text = item.texts[index]
        text.is_open = False
        match item.kind:
            case "message":
                yield TextEnded(item=text.name, annotations=notes or _noted(text.notes))
            case "reasoning":
                yield ReasoningEnded(item=text.name)
            case "function_call":
                yield ToolEnded(item=text.name)

    def _added(self, fields: Object, frame: Object) -> Iterator[Event]:
        given = optional_str(fields.get("id")) or ""
        match fields.get("type"):
            case "message" | "reasoning" as kind:
                self._items.found(kind, frame, given)
            case "function_call" | "custom_tool_call":
                item = self._items.found("function_call", frame, given)
                if name := optional_str(fields.get("name")):
                    yield from self._call(item, name, fields)
            case _:
                pass  # It comes whole, when it is done.

    def _done(self, fields: Object, frame: Object) -> Iterator[Event]:
        match fields.get("type"):
            case "message":
                yield from self._message_done(fields, frame)
            case "reasoning":
                yield from self._reasoning_done(fields, frame)
            case "function_call":
                yield from self._call_done(fields, argument_text(fields.get("arguments")), frame)
            case "custom_tool_call":
                yield from self._call_done(fields, argument_text(fields.get("input")), frame)
            case "function_call_output" | "custom_tool_call_output":
                self._items.count += 1
                yield from self._result(fields)
            case _:
                self._items.count += 1
                yield from self.part(fields)

    # Text

    def _say(self, item: Item, index: int, delta: str) -> Iterator[Event]:
        if not delta:
            return
        text = item.texts.get(index)
        if text is None or not text.is_open:
            for earlier in [one for one, other in item.texts.items() if other.is_open]:
                yield from self._end(item, earlier)
            text = item.texts[index] = Strand(self._items.named(item))
            yield TextStarted(item=text.name, message=self._items.placed(item))
        text.pieces.append(delta)
        yield TextDelta(item=text.name, delta=delta)

    def _refuse(self, item: Item, index: int, text: str) -> Iterator[Event]:
        if text and index not in item.refused:
            item.refused.add(index)
            yield from self._add(Refusal(text=text), self._items.named(item), self._items.placed(item))

    def _message_done(self, fields: Object, frame: Object) -> Iterator[Event]:
        if fields.get("role", "assistant") != "assistant":
            return  # Nobody speaks for the user but the user.
        pieces = [content.read_content([piece]) for piece in as_list(fields.get("content"))]
        given = optional_str(fields.get("id")) or ""
        whole = "".join(part.text for parts in pieces for part in parts if isinstance(part, Text))
        if self._was_said("message", given, whole):
            return
        same = next((one for one in self._items.open if one.kind == "message" and whole and one.said() == whole), None)
        if same is not None:
            self._items.also_called(given, same)
        item = self._items.found("message", frame, given)
        for index, parts in enumerate(pieces):
            for part in parts:
                match part:
                    case Text(text=text, annotations=notes):
                        yield from self._say(item, index, item.rest(text, index))
                        if index in item.texts and item.texts[index].is_open:
                            yield from self._end(item, index, notes)
                    case Refusal(text=text):
                        yield from self._refuse(item, index, text)
                    case _:
                        yield from self._add(part, self._items.named(item), self._items.placed(item))
        yield from self._close(item)

    def _was_said(self, kind: Kind, given: str, whole: str) -> bool:
        """Is it over, and was this what it said? Then it is told again, or its end comes late."""
        item = self._items.known(given)
        if item is None or item.kind != kind or not item.is_over:
            return False
        said = "".join(item.said(index) for index in item.texts)
        if whole not in (said, item.before + said):
            return False
        item.is_done = True
        return True

    def _add(self, part: Part, name: str, message: str, *, transient: bool = False) -> Iterator[Event]:
        if isinstance(part, File | Refusal | Data):
            yield PartAdded(item=name, message=message, part=part, transient=transient)

    # Reasoning

    def _think(self, item: Item, source: str, index: int, delta: str) -> Iterator[Event]:
        item.source = item.source or source
        if item.source != source or not delta:
            return
        if not item.texts:
            item.texts[0] = Strand(item.name)
            yield ReasoningStarted(item=item.name, message=self._items.placed(item))
        elif index != item.index:
            delta = f"\n\n{delta}"
        item.index = index
        item.texts[0].pieces.append(delta)
        yield ReasoningDelta(item=item.name, delta=delta)

    def _reasoning_done(self, fields: Object, frame: Object) -> Iterator[Event]:
        parts = [part for said in dialect.read([fields]) for part in said.parts if isinstance(part, Reasoning)]
        given = optional_str(fields.get("id")) or ""
        whole = parts[0] if parts else Reasoning(text="")
        if self._was_said("reasoning", given, whole.text):
            return
        item = self._items.found("reasoning", frame, given)
        yield from self._think(item, item.source or "summary", item.index, item.rest(whole.text))
        if whole.encrypted:  # Reasoning that nobody may read is still reasoning.
            if not item.texts:
                item.texts[0] = Strand(item.name)
                yield ReasoningStarted(item=item.name, message=self._items.placed(item))
            item.texts[0].is_open = False
            yield ReasoningEnded(item=item.name, encrypted=whole.encrypted)
        yield from self._close(item)

    # Calls

    def _call(self, item: Item, name: str, fields: Object) -> Iterator[Event]:
        """Begin a call, now that its name is known, and tell what came of its arguments meanwhile."""
        if item.call_id:
            return
        item.named = optional_str(fields.get("call_id"))
        given = item.named or optional_str(fields.get("id")) or item.name
        number, item.call_id = 1, given
        while item.call_id in self._calls.values():
            number += 1
            item.call_id = f"{given}.{number}"
        self._calls[given] = item.call_id
        yield from self._close_texts()
        yield ToolStarted(item=item.name, message=self._items.placed(item), call_id=item.call_id, name=name)
        yield from (ToolDelta(item=item.name, delta=piece) for text in item.texts.values() for piece in text.pieces)

    def _argue(self, item: Item, delta: str) -> Iterator[Event]:
        if delta:
            item.texts.setdefault(0, Strand(item.name)).pieces.append(delta)
            if item.call_id:
                yield ToolDelta(item=item.name, delta=delta)

    def _call_done(self, fields: Object, arguments: str, frame: Object) -> Iterator[Event]:
        given = optional_str(fields.get("id")) or optional_str(fields.get("call_id")) or ""
        known = self._items.known(given)
        named = optional_str(fields.get("call_id"))
        if known and self._was_said("function_call", given, arguments) and known.named in (named, None):
            return
        item = self._items.found("function_call", frame, given)
        name = optional_str(fields.get("name"))
        yield from self._call(item, "unknown" if name is None else name, fields)
        yield from self._argue(item, item.rest(arguments))
        item.texts.setdefault(0, Strand(item.name))
        yield from self._close(item)

    def _result(self, fields: Object) -> Iterator[Event]:
        given = optional_str(fields.get("call_id")) or ""
        call_id = self._calls.get(given, given)
        if call_id in self._answered:
            return
        self._answered.add(call_id)
        yield from self._close_texts()
        self._items.holds = "nothing"
        failed = fields.get("palaver:is_error") is True
        yield ToolReturned(call_id=call_id, output=fields.get("output"), is_error=failed)


def _noted(notes: list[Any]) -> tuple[Annotation, ...]:
    """Annotations that came one by one."""
    return tuple(
        note
        for part in content.read_content([{"text": "…", "annotations": notes}])
        if isinstance(part, Text)
        for note in part.annotations
    )
