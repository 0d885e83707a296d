"""Section 3: what is sent is never code, a path or a header line."""

from functools import partial

from palaver.cli.attacking.attacks import CALL, JSON, Attack, Outcome, Server, Try, judged, status_in
from palaver.cli.attacking.wire import send
from palaver.core import json

_CODE = ["os:system", "builtins:eval", "../x", "__class__", "palaver.testing:echo"]
_UP = ["..%2f", "../", "%2e%2e/", "..%5c", "....//", "..%252f", "%c0%ae%c0%ae/"]
_INJECTED = "x-palaver-doctor"


async def _code(server: Server) -> Outcome:
    tries = [
        Try(f"POST {CALL} for model {name}", partial(server.ask, "POST", CALL, JSON, body=_for(name))) for name in _CODE
    ]
    tries += [
        Try(f"POST /{name}/invoke", partial(server.ask, "POST", f"/{name}/invoke", JSON, body=b'{"inputs":{}}'))
        for name in ("os:system", "builtins:eval", "__class__")
    ]
    return await judged(tries, status_in(400, 404, 422))


def _for(model: str) -> bytes:
    return json.encode({"model": model, "messages": [{"role": "user", "content": "Hi"}]})


async def _files(server: Server) -> Outcome:
    names = [f"{up * 8}etc/passwd" for up in _UP]
    names += ["/etc/passwd", "%2fetc%2fpasswd", "..%2f__init__.py", "index.html%00.js", "C:%5cWindows%5cwin.ini"]
    tries = [Try(f"GET /assets/{name}", partial(server.ask, "GET", f"/assets/{name}")) for name in names]
    outcome = await judged(tries, lambda reply: reply.is_refused and b"root:" not in reply.body)
    if outcome.verdict == "broken":  # What is in such a file is not for somebody's log.
        return outcome._replace(came=f"{outcome.came.partition(':')[0]}, with a body that is not shown")
    return outcome


async def _lines(server: Server) -> Outcome:
    target = server.target
    head = f"GET {target.prefix}/health HTTP/1.1\r\nHost: {target.authority}\r\nConnection: close\r\n"
    escaped = [f"/health%0d%0a{_INJECTED}:%201", f"/health?a=%0d%0a{_INJECTED}:%201", f"/%0d%0a{_INJECTED}:%201"]
    tries = [Try(f"GET {path}", partial(server.ask, "GET", path)) for path in escaped]
    answered = await judged(tries, lambda reply: bool(reply.told) and _INJECTED not in reply.headers)
    if answered.verdict == "broken":
        return answered
    odd = {"CR": "a\rb", "LF": "a\nb: c", "NUL": "a\0b"}
    raw = {f"GET /health with {name} in a header": f"{head}x-doctor: {value}\r\n\r\n" for name, value in odd.items()}
    raw["GET /health with a folded header"] = f"{head}x-doctor: a\r\n b\r\n\r\n"
    raw["GET /health with a space before the colon"] = f"{head}x-doctor : a\r\n\r\n"
    sent = [Try(name, partial(send, target, text.encode("latin-1"))) for name, text in raw.items()]
    return await judged(sent, lambda reply: reply.is_refused)


ATTACKS = (
    Attack("code-names", "S3.1", "a workflow's name is looked up, never imported or called", _code, "a caller"),
    Attack("file-paths", "S3.2", "no path leads out of the page's own files", _files),
    Attack("header-lines", "S1.7", "no text becomes a header line", _lines),
)
