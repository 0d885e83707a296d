"""What `palaver-jobchat adaptor http@6.5.4` prints."""

from typing import assert_never

from palaver import PalaverError
from palaver_jobchat.adaptors import names
from palaver_jobchat.adaptors.folder import Docs
from palaver_jobchat.adaptors.library import Library


async def show(library: Library, text: str, *, full: bool = False) -> str:
    """What is known about the adaptor that a text names: its signatures, or all of it."""
    adaptor = names.read(text)
    if adaptor is None:
        raise PalaverError(f"{text!r} names no adaptor; one looks like {names.EXAMPLE!r} or 'http@6.5.4'.")
    return shown(await library.look_up(adaptor, download=True, told=lambda _: None), full=full)


def shown(docs: Docs, *, full: bool = False) -> str:
    """Docs as text for a terminal."""
    between, parts = ("\n\n", [e.text for e in docs.entries]) if full else ("\n", [e.signature for e in docs.entries])
    title = " ".join(filter(None, [docs.adaptor.name, docs.version]))
    return f"{title}\n{_state(docs)}\n" + (f"\n{between.join(parts)}\n" if parts else "")


def _state(docs: Docs) -> str:
    match docs.state:
        case "exact":
            return "docs: exact"
        case "nearest":
            return f"docs: nearest ({docs.docs_version}); what this version has may differ"
        case "missing":
            return "docs: missing; a chat about it goes on without"
        case _:
            assert_never(docs.state)
