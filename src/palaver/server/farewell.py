"""Our last words to a client that is still sending.

A connection that is closed with bytes of its client unread is reset, and then the client may never see what we said:
why it was refused. So we say it, say nothing after it, and let the client read; what it still sends is dropped.
"""

import asyncio

SECONDS = 5.0
"""How long a client may take over it."""


def refusal(status: bytes) -> bytes:
    """An answer to what is not even a request."""
    return b"HTTP/1.1 %b\r\nconnection: close\r\ncontent-length: 0\r\n\r\n" % status


def last_words(
    loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, words: bytes = b""
) -> asyncio.TimerHandle:
    """Say that and nothing more. The connection ends when the client leaves, or with the timer that is returned."""
    transport.write(words)
    transport.write_eof()
    return loop.call_later(SECONDS, transport.abort)
