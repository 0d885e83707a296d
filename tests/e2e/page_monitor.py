"""What a page must not do, whatever the test is about: fail, break its policy, or ask anybody but this machine."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request, Response, WebError, WebSocket

# Violations are console messages, too; but those say nothing of an element that a policy quietly leaves out.
VIOLATIONS = """
document.addEventListener('securitypolicyviolation', (event) => {
  console.error(`policy: ${event.violatedDirective} refused ${event.blockedURI}`);
});
"""


class PageMonitor:
    """What went wrong in the pages of one context, and whom they asked."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.answers: list[Response] = []

    async def follow(self, context: BrowserContext) -> None:
        """Listen to all pages that this context will have."""
        await context.add_init_script(VIOLATIONS)
        context.on("console", self._said)
        context.on("weberror", self._threw)
        context.on("request", self._asked)
        context.on("response", self._answered)
        context.on("page", self._opened)

    def forgive(self, pattern: str) -> None:
        """Take back what a test meant to happen, such as the browser's own line about a 503; and it did happen."""
        assert any(re.search(pattern, fault) for fault in self.faults), f"no {pattern!r} in {self.faults}"
        self.faults = [fault for fault in self.faults if not re.search(pattern, fault)]

    @property
    def foreign(self) -> list[str]:
        """Requests that would have left this machine."""
        return [url for url in self.requests if not _is_local(url)]

    def _opened(self, page: Page) -> None:
        page.on("websocket", self._connected)

    def _said(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def _threw(self, error: WebError) -> None:
        self.faults.append(f"thrown: {error.error}")

    def _asked(self, request: Request) -> None:
        self.requests.append(request.url)

    def _answered(self, response: Response) -> None:
        self.answers.append(response)

    def _connected(self, socket: WebSocket) -> None:
        self.requests.append(socket.url)


def _is_local(url: str) -> bool:
    parts = urlsplit(url)
    if parts.scheme in ("data", "blob", "about"):
        return True
    host = parts.hostname or ""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
