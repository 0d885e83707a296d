"""Request headers by name, decoded on access."""

from palaver.server.request import NO_HEADERS, RequestHeaders


def test_request_headers_are_a_mapping_of_text() -> None:
    headers = RequestHeaders([(b"host", b"localhost"), (b"x-name", "Zoë".encode("latin-1"))])

    assert dict(headers) == {"host": "localhost", "x-name": "Zoë"}
    assert (headers["host"], headers.get("x-name"), headers.get("none"), headers.get("none", "")) == (
        "localhost",
        "Zoë",
        None,
        "",
    )
    assert ("host" in headers, "none" in headers, 5 in headers, len(headers), headers.has_repeats) == (
        True,
        False,
        False,
        2,
        False,
    )
    assert len(NO_HEADERS) == 0


def test_repeated_headers_are_joined_with_commas() -> None:
    headers = RequestHeaders([(b"accept", b"a"), (b"host", b"h"), (b"accept", b"b")])

    assert (headers["accept"], headers["host"], headers.has_repeats) == ("a, b", "h", True)
