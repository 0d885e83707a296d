"""The rules of services' streams (contract: job-chat, 1.4)."""

from palaver.conform.rule import Protocol, Rule

_SERVICES: tuple[Protocol, ...] = ("services",)

SERVICES = (
    Rule("S1", "every event has a name that the protocol knows", _SERVICES, "readers go by it, and pass over others"),
    Rule(
        "S2",
        "`type` in the data repeats the name, but in `log`, `changes`, `data`, `complete` and `error`",
        _SERVICES,
        "readers made for Anthropic's events go by it",
    ),
    Rule(
        "S3",
        "`message_start` is first, once, with an id; a stream without it has only `log`, `data` and its end",
        _SERVICES,
        "readers begin an answer there",
    ),
    Rule(
        "S4",
        "a block starts, has deltas of its kind and stops; no two are open at once",
        _SERVICES,
        "what is said goes to the wrong block, or is lost",
    ),
    Rule("S5", "`index` of blocks is 0, 1, 2 …; their deltas and their stop repeat it", _SERVICES, "the same"),
    Rule(
        "S6",
        "there is one `complete` or one `error`, and nothing after it",
        _SERVICES,
        "a cut answer looks whole; Lightning waits for the end",
    ),
    Rule(
        "S7", "no block is open at `message_delta`, `complete` and `error`", _SERVICES, "the page shows it as growing"
    ),
    Rule(
        "S8",
        "`message_delta`, `message_stop` and `complete` end a stream that `message_start` began, in a row; `error` "
        "stands in place of all three",
        _SERVICES,
        "readers end an answer there, and would not see the rest",
    ),
    Rule("S9", "an error has a number, a word in capitals and a message", _SERVICES, "clients show nothing"),
    Rule(
        "S10",
        "a chat's document has `response`, `history`, which ends with it, four counts of `usage`, and `meta`",
        _SERVICES,
        "Lightning reads all four",
    ),
    Rule("S11", "joined text deltas are the `response`, white space aside", _SERVICES, "two clients show two answers"),
    Rule(
        "S12",
        "the whole body is the data of `complete` or `error` (of another run: it says something if the stream did)",
        _SERVICES,
        "streamed and not streamed differ",
    ),
)
