"""Request headers by name, decoded on access."""

from palaver.server.request import NO_HEADERS, RequestHeaders


def test_a_head_is_a_mapping_of_text() -> None:
    head = RequestHeaders([(b"host", b"localhost"), (b"x-name", "Zoë".encode("latin-1"))])

    assert dict(head) == {"host": "localhost", "x-name": "Zoë"}
    assert (head["host"], head.get("x-name"), head.get("none"), head.get("none", "")) == ("localhost", "Zoë", None, "")
    assert ("host" in head, "none" in head, 5 in head, len(head), head.has_repeats) == (True, False, False, 2, False)
    assert len(NO_HEADERS) == 0


def test_what_was_sent_in_several_lines_is_one_list() -> None:
    head = RequestHeaders([(b"accept", b"a"), (b"host", b"h"), (b"accept", b"b")])

    assert (head["accept"], head["host"], head.has_repeats) == ("a, b", "h", True)
