"""The plain page at /: what is served, and a line to try it with. A playground that is built takes its place."""

from html import escape

from palaver.core.descriptions import Description
from palaver.discovery.registry import Registry
from palaver.protocols.base import Answer
from palaver.server.snippets import curl

_POLICY = "default-src 'none'; style-src 'sha256-{}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:3rem auto;padding:0 1rem}"
    "body{color:#1c2024;background:#fff}h1{font-size:1.6rem;margin-bottom:.2rem}"
    "h2{font-size:1.1rem;margin:2rem 0 .2rem}"
    "p{margin:.2rem 0 .6rem;color:#51585f}"
    "pre{background:#f4f5f6;border-radius:8px;padding:.8rem 1rem;overflow-x:auto;font-size:.85rem}"
    "span{font-size:.75rem;font-weight:600;padding:.15rem .5rem;border-radius:1rem;background:#e6effc;color:#1a56a8;"
    "vertical-align:middle}span.no{background:#eee;color:#555}a{color:#1a56a8}"
    "@media(prefers-color-scheme:dark){body{background:#15181b;color:#e8eaed}p{color:#a5acb3}pre{background:#1f2428}"
    "span{background:#1b3357;color:#a9cbff}span.no{background:#2b3035;color:#b9bec4}a{color:#8ab8ff}}"
)


def page(registry: Registry, host: str, root_path: str) -> Answer:
    """The list of workflows, each with a curl line."""
    base = f"http://{host}{root_path}"
    listed = "".join(_section(description, base) for description in registry.descriptions())
    empty = "<p>No workflow is served. Start with <code>palaver serve app.py</code>.</p>"
    body = (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>Palaver</title><style>{_STYLE}</style><h1>Palaver</h1>"
        "<p>These workflows can be called here."
        f" All of it as <a href='{escape(root_path)}/openapi.json'>OpenAPI</a>.</p>"
        f"{listed or empty}<p>The playground is not built here: <code>make demo</code> builds it.</p></html>"
    )
    headers = (
        ("content-type", "text/html; charset=utf-8"),
        ("content-security-policy", _POLICY.format(_STYLE_HASH)),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
    )
    return Answer(status=200, headers=headers, body=body.encode())


def _section(description: Description, base: str) -> str:
    kind = "<span>chat</span>" if description.is_chat else "<span class=no>workflow</span>"
    told = f"<p>{escape(description.description)}</p>" if description.description else ""
    line = curl(description, base)
    return f"<h2>{escape(description.name)} {kind}</h2>{told}<pre>{escape(line)}</pre>"


def _hash(style: str) -> str:
    import base64
    import hashlib

    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()


_STYLE_HASH = _hash(_STYLE)
