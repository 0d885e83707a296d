"""Which entries are shown in full."""

from palaver_jobchat.adaptors.selection import select_entries
from palaver_jobchat.adaptors.signatures import Entry


def entry(name: str, about: str = "nothing much") -> Entry:
    return Entry(name, f"{name}()", f"{name}()\n{about:<90}")


NAMES = ["lend", "find", "order", "sort", "burn"]
ENTRIES = [*(entry(name) for name in NAMES), entry("stamp", "puts the library's seal on paper")]
SIGNATURES = "lend()\nfind()\norder()\nsort()\nburn()\nstamp()"


def full(budget: int, **about: str) -> list[str]:
    return [entry.name for entry in select_entries(ENTRIES, budget=budget, **about).full]


def test_docs_that_fit_are_shown_whole() -> None:
    choice = select_entries(ENTRIES)

    assert (choice.signatures, choice.full, choice.is_whole) == ("", tuple(ENTRIES), True)
    assert choice.text == "\n\n".join(entry.text for entry in ENTRIES)
    assert select_entries(ENTRIES, budget=len(choice.text)).is_whole
    assert not select_entries(ENTRIES, budget=len(choice.text) - 1).is_whole


def test_the_job_comes_before_the_question_then_the_log_then_what_answers_then_the_file() -> None:
    about = {
        "code": "burn(x); // lend\nstate.find(1);\nsort (y)",
        "question": "why does order not put the seal on?",
        "log": "TypeError in find",
    }

    assert full(560, **about) == ["burn", "sort", "order", "find", "stamp"]
    assert full(560, code="sort()") == ["sort", "lend", "find", "order", "burn"]


def test_signatures_are_never_cut_and_entries_never_in_the_middle() -> None:
    choice = select_entries(ENTRIES, budget=10)

    assert (choice.signatures, choice.full, choice.is_whole) == (SIGNATURES, (), False)


def test_an_entry_that_does_not_fit_lets_a_smaller_one_in() -> None:
    large = entry("huge", "x" * 1000)

    choice = select_entries([large, *ENTRIES], code="huge()", budget=len(SIGNATURES) + 7 + 100)

    assert [entry.name for entry in choice.full] == ["lend"]


def test_no_docs_are_whole() -> None:
    assert select_entries([]).is_whole
