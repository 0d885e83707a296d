"""What an agent's calls come to, as Pydantic AI tells it of the whole: counted only where nobody counts otherwise."""

from palaver.traces.conventions.base import Found
from palaver.traces.conventions.reading import Reader
from palaver.traces.record import Convention, Raw

NAME: Convention = "gen_ai"
ROOTS: frozenset[str] = frozenset(("gen_ai",))

_USAGE = "gen_ai.aggregated_usage."


def read(raw: Raw) -> Found:
    """The counts, for whoever is asked last."""
    reader = Reader(raw.attributes)
    return Found(
        input_tokens=reader.count(_USAGE + "input_tokens"),
        output_tokens=reader.count(_USAGE + "output_tokens"),
        cached_input_tokens=reader.count(_USAGE + "cache_read.input_tokens"),
        cache_creation_input_tokens=reader.count(_USAGE + "cache_creation.input_tokens"),
        notes=tuple(reader.notes),
    )
