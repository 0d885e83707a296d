"""The rule that no credential is written into a job."""

import re
from collections.abc import Iterator
from typing import Final

from palaver_jobchat.javascript import SUBSTITUTION, Node, string_value
from palaver_jobchat.rules.base import Job, Remark, rule
from palaver_jobchat.rules.operations import unwrap

_SECRET_NAMES: Final = frozenset(
    """
    accesskey accesstoken apikey apisecret apitoken appsecret auth0secret authorization authtoken bearertoken
    clientsecret passphrase passwd password privatekey proxyauthorization pwd refreshtoken secret secretkey
    securitytoken token xapikey xauthtoken
    """.split()
)
_SEPARATORS = re.compile(r"[\s_\-'\"]")
_SCHEME = re.compile(rf"(?:Basic|Bearer)\s+(?=\S*[\d=])[^\s{SUBSTITUTION}]{{6,}}", re.IGNORECASE)
_IN_URL = re.compile(rf"://[^\s/:@{SUBSTITUTION}]+:[^\s/@{SUBSTITUTION}]+@")
_IN_QUERY = re.compile(
    rf"[?&](?:access_?token|api[_-]?key|client_?secret|password|token)=[^&\s{SUBSTITUTION}]{{4,}}", re.IGNORECASE
)
_ADVICE = "Store it in the step's credential and read it from `$.configuration`."


@rule("no_credentials", accepts_invalid_code=True)
def no_credentials(job: Job) -> Iterator[Remark]:
    for node in job.root.walk():
        match node.kind:
            case "pair":
                message = _named_secret(node.child("key"), node.child("value"))
            case "variable_declarator":
                message = _named_secret(node.child("name"), node.child("value"))
            case "assignment_expression" | "assignment_pattern" | "object_assignment_pattern":
                message = _named_secret(node.child("left"), node.child("right"))
            case "string" | "template_string":
                message = _literal_secret(node)
            case _:
                continue
        if message is not None:
            yield Remark("error", node.line, f"{message} {_ADVICE}")


def _named_secret(name: Node | None, value: Node | None) -> str | None:
    if name is None or value is None:
        return None
    if name.kind in ("member_expression", "subscript_expression"):
        name = name.child("property") or name.child("index")
    text = string_value(unwrap(value))
    if name is None or text is None or not text.strip() or SUBSTITUTION in text or _contains_secret(text):
        return None
    key = _SEPARATORS.sub("", name.text).lower()
    # A lone "Bearer " is completed by a token elsewhere.
    if key not in _SECRET_NAMES or text.strip().lower() in ("basic", "bearer"):
        return None
    return f"`{name.text.strip(chr(39) + chr(34))}` is hard-coded."


def _literal_secret(node: Node) -> str | None:
    return "This string looks like a credential." if _contains_secret(string_value(node) or "") else None


def _contains_secret(text: str) -> bool:
    return bool(_SCHEME.fullmatch(text.strip()) or _IN_URL.search(text) or _IN_QUERY.search(text))
