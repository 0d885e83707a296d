"""Words that mean about the same in questions about jobs and in documentation."""

from typing import Final

SYNONYM_WEIGHT: Final = 0.6
"""Weight of a synonym, compared with the question's own word."""

_GROUPS: Final = """
    array list collection items
    loop iterate each repeat foreach
    log print console
    memory large size big
    error fail failure exception crash bug problem
    catch handle
    continue proceed skip ignore
    stop abort cancel
    credential credentials password secret login authentication username
    token key
    send sent post submit upload push
    fetch get download retrieve pull
    create insert add
    update change modify edit
    delete remove clean drop
    undefined null missing empty
    duplicate twice
    retry again repeat
    wait pause delay sleep
    timeout slow
    run execute start
    ran run
    finish end complete
    since incremental
    new changed latest recent
    page pages pagination paginate
    async await promise
    request call http
    url path address endpoint
    api service server
    json object
    result response answer output
    condition if
    filter select
    map transform reshape convert
    store save keep remember
    date time
    schedule cron
    $ dollar
    debug troubleshoot investigate
    401 unauthorized
    403 forbidden permission
    404 found
    429 rate
"""


def stem(word: str) -> str:
    """Remove the commonest endings of a word, enough to look up its synonyms."""
    for suffix in ("ing", "ed", "es", "s"):
        if word.endswith(suffix) and len(word) - len(suffix) >= 3 and not word.endswith("ss"):
            return word.removesuffix(suffix)
    return word.removesuffix("e") if len(word) > 4 else word


def _read_groups() -> dict[str, frozenset[str]]:
    synonyms: dict[str, frozenset[str]] = {}
    for line in _GROUPS.strip().split("\n"):
        words = frozenset(line.split())
        for word in words:
            synonyms[stem(word)] = synonyms.get(stem(word), frozenset()) | words
    return synonyms


_SYNONYMS: Final = _read_groups()


def synonyms_of(word: str) -> list[str]:
    """Return the synonyms of a word in lower case, sorted."""
    return sorted(other for other in _SYNONYMS.get(stem(word), ()) if stem(other) != stem(word))
