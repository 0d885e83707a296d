"""The message tree of a thread: paths, leaves, and switching branches."""

from hypothesis import given
from hypothesis import strategies as st

from palaver.core.thread_tree import ThreadNode, ThreadTree, changed_last_children

#        ┌ b ─ c
#  r ─ a ┤
#        └ d ─ e (failed)
NODES = [
    ThreadNode("r", None, 1),
    ThreadNode("a", "r", 2),
    ThreadNode("b", "a", 3),
    ThreadNode("c", "b", 4),
    ThreadNode("d", "a", 5),
    ThreadNode("e", "d", 6, "failed"),
]


def test_a_path_goes_from_the_root_to_a_node() -> None:
    tree = ThreadTree(reversed(NODES))

    assert tree.path("c") == ["r", "a", "b", "c"]
    assert tree.path(None) == []
    assert "c" in tree
    assert "x" not in tree
    assert tree["e"].status == "failed"


def test_descendants_and_children_of_a_node_are_listed() -> None:
    tree = ThreadTree(NODES)

    assert tree.descendants("a") == ["a", "b", "d", "c", "e"]
    assert [child.id for child in tree.children(None)] == ["r"]
    assert tree.children("c") == ()


def test_the_leaf_follows_last_child_or_else_the_newest_child_that_did_not_fail() -> None:
    assert ThreadTree(NODES).leaf("r") == "d"
    with_last_child = [link._replace(last_child="b") if link.id == "a" else link for link in NODES]
    assert ThreadTree(with_last_child).leaf("r") == "c"
    with_missing_child = [link._replace(last_child="gone") if link.id == "a" else link for link in NODES]
    assert ThreadTree(with_missing_child).leaf("r") == "d"


def test_switching_branches_changes_only_nodes_where_paths_diverge() -> None:
    path = [ThreadNode("r", None, 1, last_child="a"), ThreadNode("a", "r", 2, last_child="d"), ThreadNode("b", "a", 3)]

    assert changed_last_children(path) == {"a": "b"}
    assert changed_last_children(path[:2]) == {}
    assert changed_last_children([]) == {}


@st.composite
def trees(draw: st.DrawFn) -> list[ThreadNode]:
    size = draw(st.integers(1, 30))
    return [
        ThreadNode(f"n{index}", draw(st.sampled_from([None, *(f"n{above}" for above in range(index))])), index)
        for index in range(size)
    ]


@given(trees(), st.lists(st.integers(0, 29), max_size=10))
def test_every_node_of_the_current_path_has_the_same_leaf(links: list[ThreadNode], turns: list[int]) -> None:
    """After any branch switches, every node of the current path has the same leaf as the path's end."""
    known = {link.id: link for link in links}
    for turn in [*turns, 0]:
        head = f"n{turn % len(links)}"
        path = ThreadTree(known.values()).path(head)
        for upper, lower in changed_last_children([known[node] for node in path]).items():
            known[upper] = known[upper]._replace(last_child=lower)
        after = ThreadTree(known.values())

        assert {after.leaf(node) for node in path} == {after.leaf(head)}
        assert after.leaf(after.leaf(head)) == after.leaf(head)
        assert set(after.descendants(path[0])) >= set(path)
