"""Outgoing HTTP: all requests to other servers go through here.

    http        the client for URLs from an operator (code, settings, command line), and fetching of untrusted ones
    ssrf        the transport for untrusted URLs: public hosts only (docs/concepts/security.md)

Common rules: http and https only, no user info, no redirects, no proxy environment variables, bodies up to a limit.
"""

from palaver.outbound.http import (
    CONNECT_TIMEOUT_S,
    FetchedDocument,
    check_headers,
    check_url,
    client,
    fetch_document,
    printable,
    printable_json,
    printable_lines,
    read_limited,
)

__all__ = [
    "CONNECT_TIMEOUT_S",
    "FetchedDocument",
    "check_headers",
    "check_url",
    "client",
    "fetch_document",
    "printable",
    "printable_json",
    "printable_lines",
    "read_limited",
]
