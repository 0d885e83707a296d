"""The message tree of a thread and its branches. Pure functions; storage/threads holds the nodes.

Each node has its parent and the child that was last on the current branch, so switching branches only changes the
nodes where they diverge.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Literal, NamedTuple

NodeStatus = Literal["done", "partial", "streaming", "failed"]
"""`partial`: from a run that was stopped, can be continued; `failed`: from a run that failed, cannot be continued."""


class ThreadNode(NamedTuple):
    id: str
    parent: str | None
    place: int
    """Position in creation order."""
    status: NodeStatus = "done"
    last_child: str | None = None


class ThreadTree:
    """The nodes of one thread, in creation order: parents come before their children."""

    def __init__(self, nodes: Iterable[ThreadNode]) -> None:
        self._nodes: dict[str, ThreadNode] = {}
        self._children: dict[str | None, list[ThreadNode]] = {}
        for node in sorted(nodes, key=lambda node: node.place):
            self._nodes[node.id] = node
            self._children.setdefault(node.parent, []).append(node)

    def __contains__(self, node: object) -> bool:
        return node in self._nodes

    def __getitem__(self, node: str) -> ThreadNode:
        return self._nodes[node]

    def children(self, node: str | None) -> Sequence[ThreadNode]:
        """Return the children of a node in creation order; those of None are the roots."""
        return self._children.get(node, ())

    def path(self, node: str | None) -> list[str]:
        """Return the node ids from the root to `node`."""
        ids: list[str] = []
        while node is not None:
            ids.append(node)
            node = self._nodes[node].parent
        return ids[::-1]

    def descendants(self, node: str) -> list[str]:
        ids = [node]
        for parent in ids:  # `ids` grows during iteration (breadth-first).
            ids += [child.id for child in self.children(parent)]
        return ids

    def leaf(self, node: str) -> str:
        """Return the leaf below `node`, by `last_child`, or by the newest child where that is missing or failed."""
        while True:
            current = self._nodes[node]
            candidates = [child.id for child in self.children(node) if child.status != "failed"]
            if not candidates:
                return node
            node = current.last_child if current.last_child in candidates else candidates[-1]


def changed_last_children(path: Sequence[ThreadNode]) -> Mapping[str, str]:
    """Return the new `last_child` of each node on the path from the root where it changes."""
    return {upper.id: lower.id for upper, lower in pairwise(path) if upper.last_child != lower.id}
