"""The tree of a thread: paths, leaves, and what changes when somebody turns to another branch."""

from hypothesis import given
from hypothesis import strategies as st

from palaver.core.trees import Link, Tree, turned

#        ┌ b ─ c
#  r ─ a ┤
#        └ d ─ e (failed)
LINKS = [
    Link("r", None, 1),
    Link("a", "r", 2),
    Link("b", "a", 3),
    Link("c", "b", 4),
    Link("d", "a", 5),
    Link("e", "d", 6, "failed"),
]


def test_a_path_goes_from_the_root_to_a_node() -> None:
    tree = Tree(reversed(LINKS))

    assert tree.path("c") == ["r", "a", "b", "c"]
    assert tree.path(None) == []
    assert "c" in tree
    assert "x" not in tree
    assert tree["e"].status == "failed"


def test_all_below_a_node_is_found_however_it_branches() -> None:
    tree = Tree(LINKS)

    assert tree.below("a") == ["a", "b", "d", "c", "e"]
    assert [child.id for child in tree.children(None)] == ["r"]
    assert tree.children("c") == ()


def test_a_leaf_is_the_last_made_until_another_was_current() -> None:
    assert Tree(LINKS).leaf("r") == "d"
    known = [link._replace(last_child="b") if link.id == "a" else link for link in LINKS]
    assert Tree(known).leaf("r") == "c"
    gone = [link._replace(last_child="gone") if link.id == "a" else link for link in LINKS]
    assert Tree(gone).leaf("r") == "d"


def test_turning_changes_only_where_branches_part() -> None:
    path = [Link("r", None, 1, last_child="a"), Link("a", "r", 2, last_child="d"), Link("b", "a", 3)]

    assert turned(path) == {"a": "b"}
    assert turned(path[:2]) == {}
    assert turned([]) == {}


@st.composite
def trees(draw: st.DrawFn) -> list[Link]:
    size = draw(st.integers(1, 30))
    return [
        Link(f"n{place}", draw(st.sampled_from([None, *(f"n{above}" for above in range(place))])), place)
        for place in range(size)
    ]


@given(trees(), st.lists(st.integers(0, 29), max_size=10))
def test_through_any_node_above_one_comes_back_to_where_one_was(links: list[Link], turns: list[int]) -> None:
    """After any turns, the leaf below each node of the current path is the leaf below its end."""
    known = {link.id: link for link in links}
    for turn in [*turns, 0]:
        head = f"n{turn % len(links)}"
        path = Tree(known.values()).path(head)
        for upper, lower in turned([known[node] for node in path]).items():
            known[upper] = known[upper]._replace(last_child=lower)
        after = Tree(known.values())

        assert {after.leaf(node) for node in path} == {after.leaf(head)}
        assert after.leaf(after.leaf(head)) == after.leaf(head)
        assert set(after.below(path[0])) >= set(path)
