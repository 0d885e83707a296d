"""The output of `palaver-jobchat adaptor`, and the descriptions that come with Job Chat."""

from pathlib import Path

import pytest
import tree_sitter
import tree_sitter_javascript

from palaver import PalaverError
from palaver_jobchat.adaptors.entries import AdaptorDocs, Entry, decode_description
from palaver_jobchat.adaptors.library import SAMPLES, AdaptorLibrary, describe_adaptor, format_docs
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.settings import Settings

LEND = Entry("lend", "lend(book)", "lend(book)\nLend a book.")
BURN = Entry("burn", "burn(book)", "burn(book)\nDo not.")
LIBRARY = Adaptor("@openfn/language-library", "1.2.0")


def test_docs_are_formatted_as_signatures_or_in_full() -> None:
    docs = AdaptorDocs(adaptor=LIBRARY, version="1.2.0", state="exact", docs_version="1.2.0", entries=(LEND, BURN))

    assert format_docs(docs) == "@openfn/language-library 1.2.0\ndocs: exact\n\nlend(book)\nburn(book)\n"
    assert format_docs(docs, full=True) == (
        "@openfn/language-library 1.2.0\ndocs: exact\n\nlend(book)\nLend a book.\n\nburn(book)\nDo not.\n"
    )


def test_nearest_and_missing_docs_are_marked_in_the_output() -> None:
    nearest = AdaptorDocs(adaptor=LIBRARY, version="1.2.0", state="nearest", docs_version="1.0.0", entries=(LEND,))

    assert format_docs(nearest) == (
        "@openfn/language-library 1.2.0\ndocs: nearest (1.0.0); the requested version may differ\n\nlend(book)\n"
    )
    assert (
        format_docs(AdaptorDocs(adaptor=Adaptor("@mine/x")))
        == "@mine/x\ndocs: missing; the model answers without them\n"
    )


async def test_describe_adaptor_looks_up_a_short_name(tmp_path: Path) -> None:
    library = AdaptorLibrary(Settings(online=False, cache=str(tmp_path)))

    lines = (await describe_adaptor(library, "dhis2")).splitlines()

    assert lines[:3] == [
        "@openfn/language-dhis2 8.0.7",
        "docs: exact",
        "source: included in Job Chat, not the adaptor's own",
    ]
    assert "get(path: string, params?: object): Operation" in lines


async def test_invalid_adaptor_name_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(PalaverError, match="Invalid adaptor 'http@'"):
        await describe_adaptor(AdaptorLibrary(Settings(online=False, cache=str(tmp_path))), "http@")


def sample(name: str) -> dict[str, Entry]:
    entries = decode_description((SAMPLES / f"{name}.json").read_bytes())
    assert entries is not None
    return {entry.name: entry for entry in entries}


def test_bundled_versions_of_http_differ() -> None:
    old, new = sample("http@6.0.0"), sample("http@6.5.4")

    assert set(new) - set(old) == {"RequestOptions", "cursor", "fnIf", "group"}
    assert set(old) - set(new) == set()
    assert old["parseXML"].signature == "parseXML(body: string|function, script: function): Operation"
    assert new["parseXML"].signature == (
        "parseXML(body: string|function, script: function, callback?: function): Operation"
    )


@pytest.mark.parametrize("path", sorted(SAMPLES.glob("*.json")), ids=lambda path: path.stem)
def test_each_function_of_a_bundled_description_has_examples_that_parse(path: Path) -> None:
    entries = sample(path.stem).values()
    parser = tree_sitter.Parser(tree_sitter.Language(tree_sitter_javascript.language()))

    for entry in entries:
        if entry.kind == "function":
            _, _, examples = entry.text.partition("\nExample:")
            assert examples, entry.name
            for example in examples.split("\nExample:"):
                assert not parser.parse(example.partition("\n")[2].encode()).root_node.has_error, example
    assert 15 <= len(entries) <= 30
