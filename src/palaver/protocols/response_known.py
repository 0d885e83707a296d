"""Which item a frame is about, what it is called here, and which message it belongs to.

What the items say is told in response_arrivals.py.
"""

from typing import Any, Literal

from palaver.core.dialects.common import Object, optional_int, optional_str

Kind = Literal["message", "reasoning", "function_call"]
"""The items that arrive in pieces."""


class Strand:
    """One text while it grows."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.pieces: list[str] = []
        self.notes: list[Any] = []
        """Annotations, as they came."""
        self.is_open = True


class Item:
    """One item of the remote's. A message may hold several texts, by index; the others say one thing only."""

    def __init__(self, kind: Kind, name: str, before: str = "") -> None:
        self.kind: Kind = kind
        self.name = name
        self.before = before  # What it said before something else cut it short.
        self.message: str | None = None  # Ours, when it has one.
        self.is_over = self.is_done = False
        self.texts: dict[int, Strand] = {}
        self.named_parts = 0
        self.refused: set[int] = set()
        self.call_id = ""  # Ours, from the moment that its name is known,
        self.named: str | None = None  # and the remote's.
        self.source = ""  # Of reasoning: its summary or its content, whichever came first,
        self.index = 0  # and which part of it.

    def said(self, index: int = 0) -> str:
        """All of one text so far."""
        return "".join(self.texts[index].pieces) if index in self.texts else ""

    def rest(self, whole: str, index: int = 0) -> str:
        """What a whole text says beyond its pieces; nothing where it contradicts them, for what was said stays."""
        said = self.said(index)
        for known in (self.before + said, said):
            if whole.startswith(known):
                return whole[len(known) :]
        return ""


class Items:
    """The items of one response, found by the remote's id, else by their place, else by their kind."""

    def __init__(self) -> None:
        self.count = 0
        self.open: list[Item] = []
        self.holds: Literal["nothing", "reasoning", "more"] = "nothing"
        """What is in the message being spoken."""
        self._known: dict[str, Item] = {}  # By the remote's ids,
        self._places: dict[int, Item] = {}  # and by its indexes.
        self._names: set[str] = set()

    def known(self, given: str) -> Item | None:
        """The newest item of that id."""
        return self._known.get(given)

    def also_called(self, given: str, item: Item) -> None:
        """Some call an item otherwise than its pieces."""
        self._known.setdefault(given, item)

    def found(self, kind: Kind, frame: Object, given: str = "") -> Item:
        """The item that a frame is about; one that is over is begun anew."""
        given, place = given or optional_str(frame.get("item_id")) or "", optional_int(frame.get("output_index"))
        item = self._known.get(given)
        if (item is None or item.kind != kind) and place is not None:
            item = self._places.get(place)
        if item is None and not given and place is None:
            item = next((one for one in reversed(self.open) if one.kind == kind), None)
        if item is None or item.kind != kind:
            item = self._new(kind, given)
        elif item.is_over:
            item = self._new(kind, given or item.name, "" if item.is_done else item.before + item.said())
        self._known[given or item.name] = item
        if place is not None:
            self._places[place] = item
        return item

    def _new(self, kind: Kind, given: str, before: str = "") -> Item:
        self.count += 1
        item = Item(kind, self.fresh(given or f"{kind} {self.count}"), before)
        self.open.append(item)
        return item

    def fresh(self, name: str) -> str:
        """The name, or one made of it: no two items have the same."""
        free, number = name, 1
        while free in self._names:
            number += 1
            free = f"{name}.{number}"
        self._names.add(free)
        return free

    def named(self, item: Item) -> str:
        """A name for one of the things that an item holds: the first has the item's own."""
        item.named_parts += 1
        return item.name if item.named_parts == 1 else self.fresh(item.name)

    def placed(self, item: Item) -> str:
        """The message of an item: text begins one unless only reasoning stands before it, and so does reasoning.

        Calls join what is there. Data and files are not counted: they pass by.
        """
        if item.message is None:
            item.message = ""
            if item.kind == "message" and self.holds != "reasoning":
                item.message = item.name
            elif item.kind == "reasoning" and self.holds == "more":
                item.message = f"msg_{item.name}"
            self.holds = "reasoning" if item.kind == "reasoning" else "more"
        return item.message
