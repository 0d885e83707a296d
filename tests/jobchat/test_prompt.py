"""The prompt that Job Chat sends to the model."""

from hashlib import sha256
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palaver_jobchat.adaptors.entries import AdaptorDocs, Entry, select_entries
from palaver_jobchat.adaptors.names import Adaptor
from palaver_jobchat.docs.search import SearchResult
from palaver_jobchat.payload import JobContext, Payload, PreviousTopic, Turn
from palaver_jobchat.prompt import EDIT_JOB, OPENING, PRIMER, build_prompt, element

CACHED = {"type": "ephemeral"}
ENTRIES = (Entry("lend", "lend(book)", "lend(book)\nLends."), Entry("burn", "burn(book)", "burn(book)\nBurns."))
DOCS = AdaptorDocs(
    adaptor=Adaptor("@openfn/language-library"), version="1.2.0", state="exact", docs_version="1.2.0", entries=ENTRIES
)
RESULTS = [SearchResult("Loans end.", "Lending", "Loans"), SearchResult("Bare.")]


def texts(blocks: list[dict[str, Any]]) -> list[str]:
    return [block["text"] for block in blocks]


def test_question_without_context_gives_a_minimal_prompt() -> None:
    prompt = build_prompt(Payload(content="why?"))

    assert [block["cache_control"] for block in prompt.system] == [CACHED]
    assert prompt.messages == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "The job has no code yet."}, {"type": "text", "text": "why?"}],
        }
    ]
    assert prompt.tools == []


def test_parts_that_change_most_come_last_in_the_prompt() -> None:
    context = JobContext(expression="lend('Emma');\n", input='{"data":1}', output="out", log="oh")
    payload = Payload(
        content="why?", context=context, mode="edits", history=(Turn("user", "a"), Turn("assistant", "b"))
    )

    prompt = build_prompt(payload, docs=DOCS, selection=select_entries(ENTRIES), results=RESULTS)

    assert [block["cache_control"] for block in prompt.system] == [CACHED] * 3
    assert texts(prompt.system)[1] == (
        "The job's adaptor is @openfn/language-library 1.2.0. Its functions (namespaced ones may be missing):\n"
        + element("adaptor", "lend(book)\nLends.\n\nburn(book)\nBurns.")
    )
    assert texts(prompt.system)[2] == (
        "Passages from the documentation, which may or may not be relevant:\n"
        + element("docs", "Lending > Loans\n\nLoans end.")
        + "\n"
        + element("docs", "Bare.")
    )
    assert prompt.messages == [
        {"role": "user", "content": [{"type": "text", "text": "a"}]},
        {"role": "assistant", "content": [{"type": "text", "text": "b", "cache_control": CACHED}]},
        {
            "role": "user",
            "content": [
                {
                    "type": "text",
                    "text": f"The job's current code:\n{element('job', context.expression or '')}\n\n"
                    f"The input of its last run:\n{element('input', context.input or '')}\n\n"
                    f"The output of its last run:\n{element('output', 'out')}\n\n"
                    f"The log of its last run:\n{element('log', 'oh')}",
                },
                {"type": "text", "text": "why?"},
            ],
        },
    ]
    assert prompt.tools == [EDIT_JOB]


def test_first_system_block_depends_only_on_the_mode() -> None:
    def first(payload: Payload) -> str:
        return build_prompt(payload, docs=DOCS, selection=select_entries(ENTRIES)).system[0]["text"]

    other = Payload(content="b", context=JobContext(log="x", page="p"), history=(Turn("user", "c"),))
    assert first(Payload(content="a")) == first(other)
    assert first(Payload(content="a")) != first(Payload(content="a", mode="edits"))
    assert len(PRIMER) <= 6000


def test_job_and_question_do_not_change_the_cached_prefix() -> None:
    history = (Turn("user", "a"), Turn("assistant", "b"))
    one = build_prompt(Payload(content="x", history=history, context=JobContext(expression="a()")), docs=DOCS)
    two = build_prompt(Payload(content="y", history=history, context=JobContext(expression="b()")), docs=DOCS)

    assert (one.system, one.messages[:-1]) == (two.system, two.messages[:-1])
    assert one.messages[-1] != two.messages[-1]


def test_selected_entries_are_in_a_block_after_the_function_list() -> None:
    long = [msgspec.structs.replace(entry, text=f"{entry.text}{'.' * 50}") for entry in ENTRIES]
    choice = select_entries(long, code="burn(x)", budget=100)

    system = texts(build_prompt(Payload(content="a"), docs=DOCS, selection=choice).system)

    assert system[1].endswith(element("adaptor", "lend(book)\nburn(book)"))
    assert system[2] == f"Details of some of the adaptor's functions:\n{element('adaptor', long[1].text)}"
    assert len(build_prompt(Payload(content="a"), docs=DOCS, selection=select_entries(ENTRIES, budget=5)).system) == 2


@pytest.mark.parametrize(("version", "call"), [("6.5.4", "{\n    body: {"), ("7.2.10", "\n    '/visits',\n    {")])
def test_http_adaptor_has_an_example_of_its_major_version(version: str, call: str) -> None:
    docs = msgspec.structs.replace(DOCS, adaptor=Adaptor("@openfn/language-http"), version=version)

    text = build_prompt(Payload(content="a"), docs=docs, selection=select_entries(ENTRIES)).system[1]["text"]

    assert "\n\nA complete job for this version of the adaptor:\n\n```js\n" in text
    assert call in text


@pytest.mark.parametrize(("name", "version"), [("@openfn/language-http", None), ("@openfn/language-dhis2", "7.0.0")])
def test_other_adaptors_and_unknown_versions_have_no_example(name: str, version: str | None) -> None:
    docs = msgspec.structs.replace(DOCS, adaptor=Adaptor(name), version=version)

    text = build_prompt(Payload(content="a"), docs=docs, selection=select_entries(ENTRIES)).system[1]["text"]

    assert "A complete job" not in text


def test_prompt_states_when_docs_are_missing_or_of_another_version() -> None:
    nearest = msgspec.structs.replace(DOCS, state="nearest", docs_version="1.0.0")
    missing = AdaptorDocs(adaptor=Adaptor("@mine/thing"))

    assert (
        "describes version 1.0.0, the nearest known one"
        in build_prompt(Payload(content="a"), docs=nearest, selection=select_entries(ENTRIES)).system[1]["text"]
    )
    assert build_prompt(Payload(content="a"), docs=missing).system[1]["text"] == (
        "The job's adaptor is @mine/thing. Its functions are not known: say so if the answer depends on them."
    )


def question_text(payload: Payload, docs: AdaptorDocs | None = None) -> str:
    return texts(build_prompt(payload, docs=docs).messages[-1]["content"])[0]


def test_name_of_the_job_and_a_change_of_job_reach_the_model() -> None:
    context = JobContext(page="send-visits")
    moved = (
        f"Since the previous question, the user has moved here from another job: {element('name', 'fetch')}\n"
        "Earlier messages may be about that job."
    )
    name = f"The job's name: {element('name', 'send-visits')}"
    history = (Turn("user", "[pg:fetch] how?"), Turn("assistant", "So."))

    def sections(**fields: Any) -> list[str]:
        return question_text(Payload(content="a", context=context, **fields)).split("\n\n")[:-1]

    assert sections() == [name]
    assert sections(previous_topic=PreviousTopic(page="send-visits")) == [name]
    assert sections(previous_topic=PreviousTopic(page="fetch")) == [name, moved]
    assert sections(history=history) == [name, moved]
    assert sections(history=history, previous_topic=PreviousTopic(page="send-visits")) == [name]
    assert element("name", "b") in question_text(Payload(content="[pg:b] now?", history=history))


def test_change_of_the_adaptor_reaches_the_model() -> None:
    before = PreviousTopic(adaptor="@openfn/language-http", version="6.5.4")
    changed = "Since the previous question, the adaptor has changed. It was: " + element(
        "name", "@openfn/language-http 6.5.4"
    )

    assert changed in question_text(Payload(content="a", previous_topic=before), DOCS)
    assert "Earlier answers may not apply" in question_text(Payload(content="a", previous_topic=before), DOCS)
    assert f"{changed}\nThe job has no adaptor now." in question_text(Payload(content="a", previous_topic=before))
    same = PreviousTopic(adaptor="@openfn/language-library", version="1.2.0")
    assert "has changed" not in question_text(Payload(content="a", previous_topic=same), DOCS)
    assert "has changed" not in question_text(Payload(content="a", previous_topic=PreviousTopic(page="x")), DOCS)


def test_blank_turns_and_page_marks_are_not_sent() -> None:
    history = (
        Turn("assistant", "Hello"),
        Turn("user", "[pg:my_job] how?"),
        Turn("assistant", " "),
        Turn("user", "[pg:x]"),
        Turn("user", "[no] again"),
        Turn("assistant", "[pg:a] stays"),
    )

    messages = build_prompt(Payload(content="[pg:b] now?", history=history)).messages

    assert [(message["role"], texts(message["content"])[-1]) for message in messages] == [
        ("user", OPENING),
        ("assistant", "Hello"),
        ("user", "how?"),
        ("user", "[no] again"),
        ("assistant", "[pg:a] stays"),
        ("user", "now?"),
    ]
    assert build_prompt(Payload(content="[pg:b]")).messages[-1]["content"][-1]["text"] == "[pg:b]"


def test_a_prompt_has_at_most_four_cache_marks_and_no_empty_text() -> None:
    payload = Payload(
        content="a", history=(Turn("user", "b"),) * 5, context=JobContext(log=" ", input="", expression="\n")
    )

    prompt = build_prompt(payload, docs=DOCS, selection=select_entries(ENTRIES), results=RESULTS)

    assert msgspec.json.encode(prompt).count(b"cache_control") == 4
    assert all(text.strip() for message in prompt.messages for text in texts(message["content"]))


@given(st.text())
def test_no_text_can_close_its_own_element(text: str) -> None:
    mark = sha256(text.encode()).hexdigest()[:12]

    assert element("log", text) == f'<data-{mark} kind="log">{text}</data-{mark}>'
    assert f"</data-{mark}>" not in text
