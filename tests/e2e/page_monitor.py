"""Records errors, CSP violations and requests to other hosts of the pages of a test."""

import re
from ipaddress import ip_address
from urllib.parse import urlsplit

from playwright.async_api import BrowserContext, ConsoleMessage, Page, Request, Response, WebError, WebSocket

# The console doesn't report elements that the policy silently ignores.
VIOLATIONS = """
document.addEventListener('securitypolicyviolation', (event) => {
  console.error(`policy: ${event.violatedDirective} refused ${event.blockedURI}`);
});
"""


class PageMonitor:
    """Errors and requests of the pages of a browser context."""

    def __init__(self) -> None:
        self.faults: list[str] = []
        self.requests: list[str] = []
        self.answers: list[Response] = []

    async def follow(self, context: BrowserContext) -> None:
        """Listen to all pages of the context."""
        await context.add_init_script(VIOLATIONS)
        context.on("console", self._on_console)
        context.on("weberror", self._on_error)
        context.on("request", self._on_request)
        context.on("response", self._on_response)
        context.on("page", self._on_page)

    def forgive(self, pattern: str) -> None:
        """Remove expected errors, such as the console line of a 503; at least one must have occurred."""
        assert any(re.search(pattern, fault) for fault in self.faults), f"no {pattern!r} in {self.faults}"
        self.faults = [fault for fault in self.faults if not re.search(pattern, fault)]

    @property
    def foreign(self) -> list[str]:
        """Requests that would have left this machine."""
        return [url for url in self.requests if not _is_local(url)]

    def _on_page(self, page: Page) -> None:
        page.on("websocket", self._on_websocket)

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.faults.append(f"{message.type}: {message.text} ({message.location.get('url')})")

    def _on_error(self, error: WebError) -> None:
        self.faults.append(f"thrown: {error.error}")

    def _on_request(self, request: Request) -> None:
        self.requests.append(request.url)

    def _on_response(self, response: Response) -> None:
        self.answers.append(response)

    def _on_websocket(self, socket: WebSocket) -> None:
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
