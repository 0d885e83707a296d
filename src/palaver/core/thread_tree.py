"""The tree of a thread: which messages a branch has, and where it goes on. Pure; who keeps the nodes is for others.

Each node knows its parent, and which of its children was last on the current branch. So the branch that somebody turns
to is found by going down, and moving from one branch to another changes only the nodes where they part.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

NodeStatus = Literal["done", "partial", "streaming", "failed"]
"""`partial`: said by a run that was stopped, and it counts; `failed`: said before a failure, not gone on from."""


class ThreadNode(NamedTuple):
    """What the tree knows of a node."""

    id: str
    parent: str | None
    place: int
    """In order of making."""
    status: NodeStatus = "done"
    last_child: str | None = None


class ThreadTree:
    """The nodes of one thread, in order of making: a parent stands before its children."""

    def __init__(self, links: Iterable[ThreadNode]) -> None:
        self._links: dict[str, ThreadNode] = {}
        self._children: dict[str | None, list[ThreadNode]] = {}
        for link in sorted(links, key=lambda link: link.place):
            self._links[link.id] = link
            self._children.setdefault(link.parent, []).append(link)

    def __contains__(self, node: object) -> bool:
        return node in self._links

    def __getitem__(self, node: str) -> ThreadNode:
        return self._links[node]

    def children(self, node: str | None) -> Sequence[ThreadNode]:
        """Those below a node, in order of making; below None stand the roots."""
        return self._children.get(node, ())

    def path(self, node: str | None) -> list[str]:
        """From the root to this node."""
        found: list[str] = []
        while node is not None:
            found.append(node)
            node = self._links[node].parent
        return found[::-1]

    def below(self, node: str) -> list[str]:
        """The node and all below it."""
        found = [node]
        for each in found:  # Which grows while it is gone through.
            found += [child.id for child in self.children(each)]
        return found

    def leaf(self, node: str) -> str:
        """The end of the branch that was last current below a node; where none was, the one made last."""
        while True:
            here = self._links[node]
            healthy = [child.id for child in self.children(node) if child.status != "failed"]
            if not healthy:
                return node
            node = here.last_child if here.last_child in healthy else healthy[-1]


def changed_last_children(path: Sequence[ThreadNode]) -> Mapping[str, str]:
    """Which nodes of a path, from the root on, have to learn that it goes on elsewhere now: and where."""
    return {upper.id: lower.id for upper, lower in pairwise(path) if upper.last_child != lower.id}
