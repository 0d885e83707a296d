"""Hide credentials in the input, output and log of a job before a model sees them.

Text without credentials is returned unchanged, byte for byte.
"""

import re
from collections.abc import Iterator
from typing import Any, Final, cast

import msgspec

from palaver_jobchat.payload import JobContext

HIDDEN: Final = "[hidden]"
MIN_VALUE_CHARACTERS: Final = 6
"""Shorter values are hidden in their place only: elsewhere they may be ordinary words."""
MAX_VALUES: Final = 500

# Names without separators, in lower case.
_SECRET_NAME = re.compile(
    r".*(?:password|passwd|passphrase|passcode|secret|secretkey|accesskey|apikey|privatekey|encryptionkey|signingkey"
    r"|(?:access|api|auth|bearer|client|csrf|id|oauth|personal|refresh|security|session|user|x|xsrf)token|authorization|cookie)"
    r"|configuration|credentials?|pwd|pass|token|jwt|otp|basicauth"
)
_CONFIGURATION_NAMES: Final = ("configuration", "credential", "credentials")
_PUBLIC_NAME = re.compile(r".*(?:url|uri|host|hostname|username|user|email|version|instance|port|database)")
_SEPARATORS = re.compile(r"[\s_.'\"`\\-]")

# All repetitions are bounded, or can't overlap, to avoid quadratic time on long lines.
_ASSIGNED_NAME = re.compile(r"(?<![\w$.-])[\w$.-]{1,60}(?=\\{0,3}[\"'`]?\s{0,3}[:=])")
_ASSIGNED_VALUE = re.compile(
    r"""
    (?P<separator>\\{0,3}["'`]?\s{0,3}(?:=>|[:=])\s{0,3})
    (?P<value>
        \\{0,3}(?P<quote>["'`])(?:(?!\\{0,3}(?P=quote))[^\n]){0,4000}\\{0,3}(?P=quote)
      | (?:Basic|Bearer|Token)\s{1,3}[^\s"'`,;<>]{1,4000}
      | [^\s"'`,;&(){}\[\]<>]{1,4000}
    )
    """,
    re.IGNORECASE | re.VERBOSE,
)
_CONFIGURATION = re.compile(
    r"(?<![\w$.])(?P<name>\\{0,3}[\"']?(?:configuration|credentials?)\\{0,3}[\"']?\s{0,3}[:=]\s{0,3})\{[^{}]{0,20000}\}"
)
_TOKEN = re.compile(
    r"""
    -----BEGIN\ [A-Z ]{0,30}PRIVATE\ KEY-----[\w\s+/=:,\\]{0,20000}
    | \b(?:Basic|Bearer)\s+(?=[^\s"']*[\d=])[\w.~+/=-]{8,}
    | \b(?:sk|rk|pk)[-_][\w-]{16,} | \bplv_[\w-]{8,} | \bgh[opsur]_\w{20,} | \bgithub_pat_\w{20,} | \bglpat-[\w-]{16,}
    | \bxox[abeoprs]-[\w-]{10,} | \bA[KS]IA[0-9A-Z]{16}\b | \bAIza[\w-]{30,} | \bd2pat_\w{20,} | \bnpm_\w{30,}
    | \beyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?
    """,
    re.VERBOSE,
)
_IN_URL = re.compile(r"(?<=://)[^\s/:@\"'`]{0,200}:[^\s/@\"'`]{1,500}(?=@)")
# Code, not a value: `$.configuration.password`, `state.x`, `[hidden]`, `***`.
_REFERENCE = re.compile(r"[\"'`\\]*(?:\$|state\b|\[|\*|(?:undefined|null|true|false|none)\b|$)", re.IGNORECASE)


def redact_context(context: JobContext) -> JobContext:
    """Return the context with the credentials in its input, output and log hidden. The code is unchanged."""
    values: dict[str, None] = {}
    texts = {"input": context.input, "output": context.output, "log": context.log}
    originals = {name: _decode(text) for name, text in texts.items() if text}
    try:
        redacted = {name: _redact_json(original, values) for name, original in originals.items()}
        ordered = sorted(values, key=len, reverse=True)[:MAX_VALUES]
        hidden = {name: _hide_values(value, ordered) for name, value in redacted.items()}
    except RecursionError:  # Deeper than any real state.
        return msgspec.structs.replace(context, **dict.fromkeys(originals, HIDDEN))
    changed = {name: _encode(value) for name, value in hidden.items() if value != originals[name]}
    return msgspec.structs.replace(context, **changed)


def _decode(text: str) -> object:
    """Return the value of a JSON object or list, and other text as it is."""
    try:
        value: object = msgspec.json.decode(text.removeprefix("\ufeff"))
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return text
    return cast("object", value) if isinstance(value, dict | list) else text


def _encode(value: object) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _redact_json(value: object, values: dict[str, None]) -> object:
    if isinstance(value, str):
        return _redact_text(value, values)
    if isinstance(value, list):
        return [_redact_json(item, values) for item in cast("list[object]", value)]
    if not isinstance(value, dict):
        return value
    redacted: dict[str, object] = {}
    for name, item in cast("dict[str, object]", value).items():
        if _is_secret(name) and item is not None and not isinstance(item, bool):
            values.update(dict.fromkeys(_secret_values(item, "" if name in _CONFIGURATION_NAMES else name)))
            is_object = isinstance(item, dict)
            redacted[name] = dict.fromkeys(cast("dict[str, Any]", item), HIDDEN) if is_object else HIDDEN
        else:
            redacted[name] = _redact_json(item, values)
    return redacted


def _is_secret(name: str) -> bool:
    return _SECRET_NAME.fullmatch(_SEPARATORS.sub("", name[-60:]).lower()) is not None


def _secret_values(value: object, name: str) -> Iterator[str]:
    """Yield the texts of a hidden value that must not occur elsewhere either.

    In a whole configuration, addresses, user names and plain words are no secrets.
    """
    match value:
        case dict():
            for key, item in cast("dict[str, object]", value).items():
                yield from _secret_values(item, key)
        case list():
            for item in cast("list[object]", value):
                yield from _secret_values(item, name)
        case str() | int() if not isinstance(value, bool):
            text = str(value).strip()
            is_public = text.isalpha() or _PUBLIC_NAME.fullmatch(_SEPARATORS.sub("", name[-60:]).lower())
            if len(text) >= MIN_VALUE_CHARACTERS and (not is_public or _is_secret(name)):
                yield text
        case _:
            pass


def _redact_text(text: str, values: dict[str, None]) -> str:
    text = "".join(_without_assigned_secrets(text, values))
    text = _CONFIGURATION.sub(rf"\g<name>{HIDDEN}", text)
    return _TOKEN.sub(HIDDEN, _IN_URL.sub(HIDDEN, text))


def _without_assigned_secrets(text: str, values: dict[str, None]) -> Iterator[str]:
    """Yield the text in pieces, with what is assigned to names of credentials replaced."""
    end = 0
    for name in _ASSIGNED_NAME.finditer(text):
        match = _ASSIGNED_VALUE.match(text, name.end()) if name.start() >= end and _is_secret(name[0]) else None
        if match is None or _REFERENCE.match(match["value"]):
            continue
        bare = match["value"].strip("\"'`\\")
        # "Invalid token: unexpected" is not an assignment.
        if not match["quote"] and name[0].lower() in ("token", "pass") and not any(map(str.isdigit, bare)):
            continue
        values.update(dict.fromkeys(_secret_values(bare, name[0])))
        start = match.start("value") + match["value"].find(bare)
        yield text[end:start]
        yield HIDDEN
        end = start + len(bare)
    yield text[end:]


def _hide_values(value: object, hidden: list[str]) -> object:
    """Return text or JSON without the values that were hidden elsewhere."""
    match value:
        case str():
            for secret in hidden:
                value = value.replace(secret, HIDDEN)
            return value
        case list():
            return [_hide_values(item, hidden) for item in cast("list[object]", value)]
        case dict():
            return {name: _hide_values(item, hidden) for name, item in cast("dict[str, object]", value).items()}
        case int() if not isinstance(value, bool) and str(value) in hidden:
            return HIDDEN
        case _:
            return value
