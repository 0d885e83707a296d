"""HTTP to the outside: everything that Palaver asks of another server goes through here.

    clients     the client for URLs that an operator named (in code, settings, on the command line): any host
    addresses   which addresses are public
    guard       the client for URLs that strangers may influence: public hosts only (security.md §6)
    fetching    `fetch(url)`, one guarded GET with all its limits
    texts       a stranger's text, made harmless before it is shown

The rules of all: http and https only, no user info, no redirect and no proxy variable is followed, bodies are read up
to a limit. Which paths are asked and what the answers mean is left to the callers.
"""

from palaver.outbound.fetch import FetchedDocument, fetch_document
from palaver.outbound.http import (
    CONNECT_TIMEOUT_S,
    check_headers,
    check_url,
    client,
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
