"""The conformance rules, which the checkers, `palaver conform` and the documentation share.

The letter of an id stands for a group (`I`: Responses); the part of a rule that breaks no client has the suffix `b`. A
rule is a *must* if a real client breaks without it, else a *should*: reported, but no reason to fail another server.
"""

from collections.abc import Mapping
from typing import Literal, get_args

from msgspec import Struct

Protocol = Literal["responses", "invocations", "chat-completions", "ui-stream", "services"]
"""`responses` and `invocations` are two profiles of one protocol."""
Severity = Literal["must", "should"]


class Rule(Struct, frozen=True):
    id: str
    text: str
    required_by: tuple[Protocol, ...]
    """The protocols whose clients break without it. For the others it is a should."""
    reason: str
    """Which clients break, or why it is only a should."""


_SERVICES: tuple[Protocol, ...] = ("services",)

SERVICE_RULES = (
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


_ALL: tuple[Protocol, ...] = get_args(Protocol)
_RESPONSES_AND_INVOCATIONS: tuple[Protocol, ...] = ("responses", "invocations")
_RESPONSES_ONLY: tuple[Protocol, ...] = ("responses",)
_INVOCATIONS: tuple[Protocol, ...] = ("invocations",)
_CHAT: tuple[Protocol, ...] = ("chat-completions",)
_UI: tuple[Protocol, ...] = ("ui-stream",)
_NONE: tuple[Protocol, ...] = ()

FRAMING = (
    Rule(
        "F1",
        "the data of every event is one JSON object in UTF-8 (on `services` any JSON), or `[DONE]`",
        _ALL,
        "every reader",
    ),
    Rule("F2", "the last event is closed by an empty line", _ALL, "readers that keep to the standard drop it"),
    Rule("F3", "a frame has the fields that its type needs, of the right type", _ALL, "every typed reader"),
    Rule(
        "F4",
        "`event:` repeats `type` on `responses`, names the event on `services`, and stands nowhere else; no `id:`, "
        "`retry:` or other field, and no comment inside an event",
        _NONE,
        "Open Responses validators alone ask for `event:`",
    ),
    Rule("F5", "the content type is `text/event-stream`", _ALL, "browsers' EventSource and what is modelled on it"),
    Rule("F6", "nothing stands after `[DONE]`", _ALL, "the OpenAI SDKs stop reading there"),
)

RESPONSES = (
    Rule(
        "I1",
        "`response.created` is first, once; the only frames without an item are lifecycle, `error`, own and trace ones",
        _RESPONSES_ONLY,
        "`stream()` of both OpenAI SDKs; MLflow's own agents begin without it",
    ),
    Rule("I2", "one response id throughout", _RESPONSES_ONLY, "OpenAI SDKs; MLflow clients read no id"),
    Rule(
        "I3",
        "exactly one of `response.completed`, `.failed`, `.incomplete`, and it is the last typed frame",
        _RESPONSES_ONLY,
        "OpenAI SDKs and Open Responses validators; MLflow's own agents send none",
    ),
    Rule("I3b", "`[DONE]` is the last line", _NONE, "Open Responses validators alone; OpenAI's servers send none"),
    Rule(
        "I4",
        "`sequence_number` is 0, 1, 2 … without gap",
        _RESPONSES_ONLY,
        "`@ai-sdk/open-responses`, and everyone who resumes; MLflow sends none",
    ),
    Rule(
        "I5",
        "`output_index` of added items is 0, 1, 2 …; every later frame of it repeats its index, id, type and `call_id`",
        _RESPONSES_ONLY,
        "`stream()` of both OpenAI SDKs; MLflow sends none",
    ),
    Rule(
        "I6",
        "item ids are unique, and so are the `call_id`s of function calls",
        _RESPONSES_AND_INVOCATIONS,
        "the Databricks provider loses text, the AI SDK mixes up tools",
    ),
    Rule(
        "I7",
        "every item that began has its `response.output_item.done`, and nothing follows for it",
        _RESPONSES_AND_INVOCATIONS,
        "MLflow's traces lack it, SDKs lose the rest",
    ),
    Rule(
        "I7b",
        "an item begins with its `added`, and so does each part of it; each part and each text has its `done`",
        _RESPONSES_ONLY,
        "`stream()` of both OpenAI SDKs; MLflow's own agents send deltas and done items alone",
    ),
    Rule(
        "I8",
        "between an item's `added` and `done` stand only its own frames, or whole `palaver:*` items",
        _RESPONSES_AND_INVOCATIONS,
        "the Databricks provider drops text, ChatOpenAI mixes arguments",
    ),
    Rule(
        "I9",
        "joined deltas, the text of `.done` and the text of the item are equal; arguments and refusals too",
        _RESPONSES_AND_INVOCATIONS,
        "two clients show two answers",
    ),
    Rule("I10", "`content_index` and `summary_index` are 0", _NONE, "ours: one item, one part; OpenAI sends several"),
    Rule(
        "I10b",
        "`annotation_index` is 0, 1, 2 …, no annotation stands before the last delta, and the part has them all",
        _INVOCATIONS,
        "the Databricks provider loses the text after it; OpenAI's servers mix them",
    ),
    Rule(
        "I11",
        "every function_call_output follows its function_call, here or in the input, and only once",
        _RESPONSES_AND_INVOCATIONS,
        "the AI SDK's stream dies",
    ),
    Rule(
        "I12",
        "the terminal `output` lists the done items by index: same ids, types, texts, arguments and outputs",
        _RESPONSES_AND_INVOCATIONS,
        "what was shown is not what is kept",
    ),
    Rule("I12b", "and it equals them deeply", _NONE, "ours: SDKs take either"),
    Rule(
        "I13",
        "a failed run has `error` before `response.failed`, and only a failed run has it",
        _INVOCATIONS,
        "the Databricks provider is blind to `response.failed`",
    ),
    Rule(
        "I13b",
        "the error frame is spelled flat (`code`, `message`, `param`) and nested (`error`)",
        _NONE,
        "MLflow and LangChain read the flat one, SDKs the nested one; OpenAI sends one",
    ),
    Rule(
        "I14",
        "own event types begin `palaver:` and stand on `invocations` only, as does `responses.completed`; items there "
        "have types that MLflow knows",
        _RESPONSES_AND_INVOCATIONS,
        "openai-node's `stream()` throws on an unknown event, MLflow on an unknown item",
    ),
    Rule("I14b", "item types are OpenAI's or begin `palaver:`", _NONE, "SDKs pass unknown items on"),
    Rule(
        "I15",
        "a message is the assistant's and has a part, `annotations` is a list, no id, call_id, text or output is null",
        _RESPONSES_AND_INVOCATIONS,
        "MLflow's validation, `generateText`",
    ),
    Rule("I15b", "a message has exactly one part, which is not empty", _NONE, "ours: OpenAI sends several"),
    Rule(
        "I16",
        "the whole body is the terminal `response` of the same run (of another: it says something if the stream did)",
        _RESPONSES_AND_INVOCATIONS,
        "streamed and not streamed differ",
    ),
    Rule("I16b", "the whole body of another run has the same keys", _NONE, "servers may say less when asked otherwise"),
    Rule(
        "I17",
        "`responses.completed` has `usage` and `status`",
        _INVOCATIONS,
        "the Databricks provider throws",
    ),
    Rule(
        "I17b",
        "on `invocations` it stands directly before the terminal frame",
        _NONE,
        "the Databricks provider then knows no usage and no finish reason; MLflow's own agents send none",
    ),
    Rule(
        "I18",
        "on `invocations` no refusal part, and no annotation but url_citation with both indexes",
        _INVOCATIONS,
        "the Databricks provider dies of a refusal, `generateText` of any other annotation",
    ),
    Rule(
        "B1",
        "a response object has `object`, an id and the status that fits its event; `error` where it failed, a reason "
        "where it is incomplete",
        _RESPONSES_ONLY,
        "every reader of the final response; MLflow's bodies have no status",
    ),
    Rule("B2", "on `responses` it has every key, and null only where null is allowed", _NONE, "validators alone"),
    Rule(
        "B3",
        "on `invocations` no field of it is null",
        _INVOCATIONS,
        "`generateText` of the Databricks provider fails on null `id model created_at usage`",
    ),
    Rule(
        "B4",
        "usage has three counts and both `*_details`, or is not there",
        _INVOCATIONS,
        "MLflow's validation; the OpenAI SDKs do without",
    ),
)

CHAT_COMPLETIONS = (
    Rule("C1", "every chunk is a `chat.completion.chunk`, all with one string `id`", _CHAT, "who joins chunks by id"),
    Rule("C1b", "and with one `created` and one `model`", _NONE, "nobody looks"),
    Rule(
        "C2",
        "every chunk has one choice, of index 0; none at all only where there is `usage`",
        _CHAT,
        "who reads `choices[0]`, which is nearly everyone",
    ),
    Rule("C2b", "a choice has `logprobs` and `finish_reason`, null where unknown", _NONE, "typed readers do without"),
    Rule("C3", "the first choice says `role: assistant`", _CHAT, "openai-node's `stream()` throws: missing role"),
    Rule("C3b", "and no later one says a role", _NONE, "SDKs take it"),
    Rule(
        "C4",
        "one choice has a `finish_reason` that clients know, unless the stream ends in an error",
        _CHAT,
        "openai-node's `stream()` throws: missing finish_reason; a cut answer looks whole",
    ),
    Rule("C4b", "the delta of that choice is empty", _NONE, "SDKs take it"),
    Rule(
        "C5", "after `finish_reason` comes usage at most, and after usage or an error nothing", _CHAT, "it is not read"
    ),
    Rule(
        "C6",
        "usage has a chunk of its own, after `finish_reason`; every other chunk says `usage: null`, or none has it",
        _NONE,
        "SDKs take it anywhere",
    ),
    Rule(
        "C7",
        "tool calls have index 0, 1, 2 …; the first piece alone has id, type and name; ids are unique",
        _CHAT,
        "SDKs throw without; LangChain joins what is repeated",
    ),
    Rule("C8", "the pieces of one call stand together", _NONE, "readers join by index"),
    Rule("C9", "`finish_reason: tool_calls` only after a call", _CHAT, "agents wait for a call that is not there"),
    Rule("C10", "no delta is empty, but the first and the finishing one", _NONE, "noise"),
    Rule("C11", "an error has a `message`, and `type`, `code` and `param`", _CHAT, "SDKs show nothing"),
    Rule("C12", "`[DONE]` is the last line", _CHAT, "readers that wait for it; OpenAI documents it as the end"),
    Rule(
        "C13",
        "the whole answer is a `chat.completion` with one choice: the assistant's message and a known `finish_reason`",
        _CHAT,
        "every reader",
    ),
    Rule(
        "C14",
        "and it is what the stream adds up to (of another run: it says something if the stream did)",
        _CHAT,
        "streamed and not streamed differ",
    ),
)

UI_STREAM = (
    Rule("U1", "every part has a type that the client's version knows", _UI, "the client's stream fails"),
    Rule("U2", "`start` is first, once, with a `messageId`", _NONE, "clients make an id of their own"),
    Rule(
        "U3",
        "`finish` or `abort` is the last part, once",
        _UI,
        "a cut answer looks whole; what follows is not expected",
    ),
    Rule(
        "U4",
        "`start-step` and `finish-step` come in pairs; what is said stands between, `finish` outside",
        _NONE,
        "clients only draw a line",
    ),
    Rule("U5", "text and reasoning: `-start`, `-delta`s, `-end`, and nothing without start", _UI, "the client throws"),
    Rule("U5b", "an id is not used again after its `-end`", _NONE, "clients show a second part"),
    Rule(
        "U6",
        "open text and reasoning are ended before `finish-step`, `finish`, `error` and `abort`",
        _UI,
        "the client forgets them there: the next delta throws, the part stays `streaming`",
    ),
    Rule(
        "U7",
        "a tool's input starts, grows and is available (or an error) once, then comes its output once; nothing for a "
        "`toolCallId` that nobody knows",
        _UI,
        "the client throws",
    ),
    Rule("U8", "for clients of version 5 a tool's output stands in the step of its call", _UI, "version 5 throws"),
    Rule("U8b", "for later ones too", _NONE, "later versions look in all steps"),
    Rule(
        "U9",
        "what starts after the outputs of a step's tools starts in a new step",
        _NONE,
        "`useChat` may resend once too often",
    ),
    Rule("U10", "joined input deltas are the JSON text of the input", _NONE, "clients show the input itself"),
    Rule("U11", "after `error` the run finishes with `finishReason: error`", _NONE, "clients have seen the error"),
    Rule("U12", "`finishReason` is one that clients know", _UI, "their schema is a closed list"),
    Rule("U13", "`[DONE]` is the last line", _NONE, "clients do without"),
    Rule(
        "U14",
        "the answer has the header `x-vercel-ai-ui-message-stream: v1`",
        _NONE,
        "the stock transport does not look",
    ),
)

ANSWER_RULES = (
    Rule("E1", "a plain prompt is answered with 200, in time", _ALL, "everyone"),
    Rule(
        "E2",
        "a request that cannot be read (`input: 42`, `content: 42`, no `messages`) is answered with 4xx",
        _ALL,
        "validators; SDKs retry 5xx",
    ),
    Rule(
        "E3",
        'its body is `{"error": {"message": …}}`, on the UI stream a line of text, on `services` the error object',
        _ALL,
        'OpenAI SDKs say "no body", `useChat` shows the body word for word',
    ),
    Rule(
        "E4", "and has `type`, `code` and `param` there, and `detail` beside it", _NONE, "MLflow clients show `detail`"
    ),
)

GROUPS: Mapping[str, tuple[Rule, ...]] = {
    "Framing, all protocols": FRAMING,
    "Responses": RESPONSES,
    "Chat Completions": CHAT_COMPLETIONS,
    "UI message stream": UI_STREAM,
    "Services": SERVICE_RULES,
    "Answers, all protocols": ANSWER_RULES,
}
RULES: Mapping[str, Rule] = {rule.id: rule for group in GROUPS.values() for rule in group}


def severity(rule: str, protocol: Protocol) -> Severity:
    return "must" if protocol in RULES[rule].required_by else "should"
