"""The items of a Responses stream, from `added` to `done`: I5 to I11. What a finished one looks like: bodies.py."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from palaver.conform.bodies import check_item
from palaver.conform.findings import Findings, as_object, list_in, number_in, object_in, shown, text_in
from palaver.conform.frames import Frame


class _Stem(NamedTuple):
    """A kind of text that grows by deltas: `response.{stem}.delta`, then `response.{stem}.done`."""

    done: str
    """The field of `.done` that has it whole."""
    place: str | None
    """The field that says which part of the item it is."""


_STEMS: Mapping[str, _Stem] = {
    "output_text": _Stem("text", "content_index"),
    "refusal": _Stem("refusal", "content_index"),
    "reasoning_text": _Stem("text", "content_index"),
    "reasoning_summary_text": _Stem("text", "summary_index"),
    "function_call_arguments": _Stem("arguments", None),
    "mcp_call_arguments": _Stem("arguments", None),
    "custom_tool_call_input": _Stem("input", None),
}
_PARTS = {"content_part": "content_index", "reasoning_summary_part": "summary_index"}
# Which text stands in which part: a delta wants its part to be there.
_PART_OF = {
    "output_text": "content_part",
    "refusal": "content_part",
    "reasoning_summary_text": "reasoning_summary_part",
}
_LISTS = {"message": "content", "reasoning": "summary"}
_Key = tuple[str, int]


@dataclass(eq=False)
class _Item:
    id: str
    type: str | None
    index: int | None
    call: object = None
    """Its `call_id` when it was added."""
    announced: bool = True
    """Did it begin with `added`? Else only with a delta, or it is there all at once."""
    done: bool = False
    pieces: dict[_Key, list[str]] = field(default_factory=dict[_Key, list[str]])
    whole: set[_Key] = field(default_factory=set[_Key])
    """Texts that had their `.done`."""
    parts: dict[_Key, bool] = field(default_factory=dict[_Key, bool])
    """Parts that were added: are they still open?"""
    annotations: dict[int, list[Any]] = field(default_factory=dict[int, list[Any]])

    def said(self, stem: str, index: int) -> str | None:
        """The joined deltas; None where there were none and none had to be."""
        pieces = self.pieces.get((stem, index))
        return "".join(pieces) if pieces is not None else "" if self.announced else None


class Items:
    """Follows every item. `asked` are the calls of the input that have no result yet."""

    def __init__(self, findings: Findings, asked: Collection[str]) -> None:
        self._broke = findings.broke
        self._findings = findings
        self._items: dict[str, _Item] = {}
        self._open: list[_Item] = []
        self._next = 0
        self._calls: set[str] = set()
        self._unanswered = set(asked)
        self.finished: dict[int, dict[str, Any]] = {}
        """Items as their `done` had them, by index."""

    def feed(self, frame: Frame, kind: str, value: dict[str, Any]) -> None:
        """Look at a frame of an item; `kind` is its type without `response.`."""
        if kind in ("output_item.added", "output_item.done"):
            said = object_in(value, "item")
            identity = self._identity(said) if said is not None else None
            if said is None or text_in(said, "type") is None:
                self._broke("F3", frame, "it has no item with a type")
            elif identity is None:
                self._broke("I15", frame, f"the id of its item is {shown(said.get('id'))}")
            elif kind == "output_item.added":
                self._added(frame, identity, said, value)
            else:
                self._done(frame, identity, said, value)
            return
        identity = text_in(value, "item_id")
        if identity is None:
            self._broke("F3", frame, f"its item_id is {shown(value.get('item_id'))}")
            return
        item = self._of(frame, identity, value)
        if item is not None:
            self._grow(frame, item, kind, value)

    def end(self, frame: Frame) -> None:
        """The run is over: nothing may be open."""
        for item in self._open:
            self._broke("I7", frame, f"the item {shown(item.id)} has no done")
            item.done = True
        self._open.clear()

    # An item's beginning and end

    def _identity(self, said: dict[str, Any]) -> str | None:
        """Its id. MLflow's own results have none, and are known by their call."""
        if self._findings.protocol == "invocations" and "id" not in said and "call_id" in said:
            return f"{said.get('type')} of {said['call_id']}"
        return text_in(said, "id")

    def _added(self, frame: Frame, identity: str, said: dict[str, Any], value: dict[str, Any]) -> None:
        kind = text_in(said, "type") or ""
        item = self._begin(frame, identity, kind, value)
        if item is None:
            return
        item.call = said.get("call_id")
        if kind in _LISTS and list_in(said, _LISTS[kind]) is None:
            self._broke("F3", frame, f"the added {kind} has no list as {_LISTS[kind]}")
        if kind == "function_call":
            arguments = text_in(said, "arguments")
            if arguments is None:
                self._broke("F3", frame, f"arguments is {shown(said.get('arguments'))}, not a string")
            elif arguments:  # Deltas go on from there.
                item.pieces["function_call_arguments", 0] = [arguments]

    def _done(self, frame: Frame, identity: str, said: dict[str, Any], value: dict[str, Any]) -> None:
        item = self._items.get(identity)
        if item is None:
            index = number_in(value, "output_index")
            other = next((one for one in self._open if one.index == index and index is not None), None)
            if other is not None:
                self._broke("I5", frame, f"the item was added as {shown(other.id)} and is done as {shown(identity)}")
                item = self._items[identity] = other
            else:
                self._broke("I7b", frame, "the item is done, but was never added")
                item = self._begin(frame, identity, text_in(said, "type"), value, announced=False)
                assert item is not None
        elif item.done:
            self._broke("I7", frame, "the item was done before")
            return
        self._check_place(frame, item, value)
        self._check_texts(frame, item, said)
        self._check_call(frame, said)
        check_item(self._findings, frame, said)
        item.done = True
        self._open.remove(item)
        self.finished[item.index if item.index is not None else len(self.finished)] = said

    def _begin(
        self, frame: Frame, identity: str, kind: str | None, value: dict[str, Any], *, announced: bool = True
    ) -> _Item | None:
        if identity in self._items:
            self._broke("I6", frame, f"there was an item {shown(identity)} before")
            return None
        index = number_in(value, "output_index")
        if index != self._next:
            self._misplaced(frame, value, f"{self._next} is next")
        self._next = self._next + 1 if index is None else max(self._next, index + 1)
        # Palaver's own items may stand inside another one: clients skip what they do not know.
        if self._open and not (_is_own(kind) and not _is_own(self._open[-1].type)):
            self._broke("I8", frame, f"it begins while {shown(self._open[-1].id)} is open")
        item = _Item(identity, kind, index, announced=announced)
        self._items[identity] = item
        self._open.append(item)
        return item

    def _of(self, frame: Frame, identity: str, value: dict[str, Any]) -> _Item | None:
        """The item that a frame belongs to, if it may."""
        item = self._items.get(identity)
        if item is None:
            self._broke("I7b", frame, f"no item {shown(identity)} was added")
            return self._begin(frame, identity, None, value, announced=False)
        if item.done:
            self._broke("I7", frame, f"the item {shown(identity)} is done")
            return None
        self._check_place(frame, item, value)
        return item

    def _check_place(self, frame: Frame, item: _Item, value: dict[str, Any]) -> None:
        if number_in(value, "output_index") != item.index:
            self._misplaced(frame, value, f"its item has {item.index}")
        if self._open[-1] is not item:
            self._broke("I8", frame, f"it stands between the frames of {shown(self._open[-1].id)}")
        said = object_in(value, "item")
        if said is not None and item.type not in (None, said["type"]):
            self._broke("I5", frame, f"the item was added as {shown(item.type)} and is done as {shown(said['type'])}")
        elif said is not None and item.announced and item.call != said.get("call_id"):
            self._broke("I5", frame, f"call_id was {shown(item.call)} and is {shown(said.get('call_id'))}")

    def _misplaced(self, frame: Frame, value: dict[str, Any], expected: str) -> None:
        is_odd = "output_index" in value and number_in(value, "output_index") is None
        self._broke("F3" if is_odd else "I5", frame, f"output_index is {shown(value.get('output_index'))}, {expected}")

    # What it holds

    def _grow(self, frame: Frame, item: _Item, kind: str, value: dict[str, Any]) -> None:
        stem, _, verb = kind.rpartition(".")
        if stem in _STEMS and verb in ("delta", "done"):
            self._text(frame, item, stem, verb, value)
        elif stem in _PARTS and verb in ("added", "done"):
            self._part(frame, item, stem, verb, value)
        elif kind == "output_text.annotation.added":
            at = self._index(frame, value, "content_index")
            added = item.annotations.setdefault(at, [])
            if object_in(value, "annotation") is None:
                self._broke("F3", frame, f"annotation is {shown(value.get('annotation'))}, not an object")
            if number_in(value, "annotation_index") != len(added):
                told = shown(value.get("annotation_index"))
                self._broke("I10b", frame, f"annotation_index is {told}, not {len(added)}")
            added.append(value.get("annotation"))

    def _index(self, frame: Frame, value: dict[str, Any], name: str | None) -> int:
        if name is None:
            return 0
        index = number_in(value, name)
        if index != 0:
            # SDKs look the part up by this number. MLflow's own agents leave it out, and their clients do without.
            is_left_out = self._findings.protocol == "invocations" and name not in value
            rule = "F3" if index is None and not is_left_out else "I10"
            self._broke(rule, frame, f"{name} is {shown(value.get(name))}")
        return index or 0

    def _text(self, frame: Frame, item: _Item, stem: str, verb: str, value: dict[str, Any]) -> None:
        fields = _STEMS[stem]
        index = self._index(frame, value, fields.place)
        key = (stem, index)
        name = "delta" if verb == "delta" else fields.done
        said = text_in(value, name)
        if said is None:
            self._broke("F3", frame, f"{name} is {shown(value.get(name))}, not a string")
            return
        if key in item.whole:
            self._broke("I7", frame, f"this {stem} is done")
            return
        part = _PART_OF.get(stem)
        if part is not None and item.announced and not item.parts.get((part, index)):
            self._broke("I7b", frame, f"it has no open {part}")
        if verb == "delta":
            if stem == "output_text" and item.annotations.get(index):
                self._broke("I10b", frame, "an annotation stands before it")
            item.pieces.setdefault(key, []).append(said)
            return
        item.whole.add(key)
        self._compare(frame, item, key, said, "the done text")

    def _part(self, frame: Frame, item: _Item, stem: str, verb: str, value: dict[str, Any]) -> None:
        index = self._index(frame, value, _PARTS[stem])
        key, part = (stem, index), object_in(value, "part")
        if part is None or text_in(part, "type") is None:
            self._broke("F3", frame, "it has no part with a type")
            return
        if verb == "added":
            if key in item.parts:
                self._broke("I7b", frame, "the part was added before")
            item.parts[key] = True
            return
        if not item.parts.get(key) and item.announced:
            self._broke("I7b", frame, "the part is done, but not open")
        item.parts[key] = False
        self._compare_part(frame, item, index, part)

    def _check_texts(self, frame: Frame, item: _Item, said: dict[str, Any]) -> None:
        """Is the finished item what its frames said?"""
        if item.announced:
            needed = {("function_call_arguments", 0)} if said["type"] == "function_call" else set[_Key]()
            for key in (item.pieces.keys() | needed) - item.whole:
                self._broke("I7b", frame, f"its {key[0]} has no done")
            for key in (key for key, is_open in item.parts.items() if is_open):
                self._broke("I7b", frame, f"its {key[0]} has no done")
        for name in ("content", "summary"):
            for index, part in enumerate(list_in(said, name) or ()):
                self._compare_part(frame, item, index, as_object(part) or {})
        if said["type"] == "function_call" and (arguments := text_in(said, "arguments")) is not None:
            self._compare(frame, item, ("function_call_arguments", 0), arguments, "the arguments")

    def _compare_part(self, frame: Frame, item: _Item, index: int, part: dict[str, Any]) -> None:
        match part:
            case {"type": "output_text", "text": str(text)}:
                self._compare(frame, item, ("output_text", index), text, "the text of the part")
                annotations, added = list_in(part, "annotations") or [], item.annotations.get(index, [])
                if item.announced and annotations != added:
                    self._broke("I10b", frame, f"annotations are {shown(annotations)}, added were {shown(added)}")
            case {"type": "refusal", "refusal": str(text)}:
                self._compare(frame, item, ("refusal", index), text, "the refusal")
            case {"type": "summary_text", "text": str(text)}:
                self._compare(frame, item, ("reasoning_summary_text", index), text, "the summary")
            case _:
                pass

    def _compare(self, frame: Frame, item: _Item, key: _Key, text: str, what: str) -> None:
        said = item.said(*key)
        if said is not None and said != text:
            self._broke("I9", frame, f"{what} is {shown(text)}, the deltas said {shown(said)}")

    def _check_call(self, frame: Frame, said: dict[str, Any]) -> None:
        call = text_in(said, "call_id")
        if call is None:
            return
        if said["type"] == "function_call":
            if call in self._calls:
                self._broke("I6", frame, f"there was a call {shown(call)} before")
            self._calls.add(call)
            self._unanswered.add(call)
        elif said["type"] == "function_call_output":
            if call not in self._unanswered:
                self._broke("I11", frame, f"it answers {shown(call)}, which is no open call")
            self._unanswered.discard(call)


def _is_own(kind: str | None) -> bool:
    return (kind or "").startswith("palaver:")
