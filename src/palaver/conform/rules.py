"""The conformance rules, which the checkers, `palaver conform` and the documentation share.

The letter of an id stands for a group (`I`: Responses). A part of a rule on which fewer clients rely, or none, is a
separate rule with the suffix `b`. A rule is a *must* if a real client breaks without it, else a *should*: reported, but
no reason to fail another server.
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
    Rule(
        "S1",
        "Every event has a name that the protocol defines.",
        _SERVICES,
        "Clients dispatch on the name and ignore unknown events.",
    ),
    Rule(
        "S2",
        "`type` in the data repeats the event name, except for `log`, `changes`, `data`, `complete` and `error`.",
        _SERVICES,
        "Clients written for Anthropic's events dispatch on `type`.",
    ),
    Rule(
        "S3",
        "`message_start` is the first event, occurs once and has an id. A stream without it has only `log` "
        "and `data` events before `complete` or `error`.",
        _SERVICES,
        "Clients start an answer at `message_start`.",
    ),
    Rule(
        "S4",
        "A content block starts, has deltas of its own kind and stops. Only one block is open at a time.",
        _SERVICES,
        "Text ends up in the wrong block or is lost.",
    ),
    Rule(
        "S5",
        "The `index` of blocks counts 0, 1, 2, …; the deltas and the stop event of a block repeat its index.",
        _SERVICES,
        "Text ends up in the wrong block or is lost.",
    ),
    Rule(
        "S6",
        "The stream ends with exactly one `complete` or `error`, and nothing follows it.",
        _SERVICES,
        "A truncated answer looks complete; Lightning waits for the end.",
    ),
    Rule(
        "S7",
        "No block is open at `message_delta`, `complete` or `error`.",
        _SERVICES,
        "Clients show the block as still streaming.",
    ),
    Rule(
        "S8",
        "A stream with `message_start` ends with `message_delta`, `message_stop` and `complete`, in this "
        "order and with nothing in between. `error` replaces all three.",
        _SERVICES,
        "Clients end the answer at `message_stop` and miss whatever follows.",
    ),
    Rule(
        "S9",
        "An error has a numeric code, an upper-case type and a message.",
        _SERVICES,
        "Clients can't show the error.",
    ),
    Rule(
        "S10",
        "The final document of a chat has `response`, a `history` that ends with it, four `usage` counts, and `meta`.",
        _SERVICES,
        "Lightning reads all of them.",
    ),
    Rule(
        "S11",
        "The joined text deltas equal `response`, ignoring whitespace.",
        _SERVICES,
        "Different clients show different answers.",
    ),
    Rule(
        "S12",
        "The non-streamed body equals the data of `complete` or `error`. For a body of another run: both have "
        "text or neither does.",
        _SERVICES,
        "Streamed and non-streamed answers differ.",
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
        "The data of every event is one JSON object in UTF-8 (on `services`: any JSON value) or `[DONE]`.",
        _ALL,
        "No client can parse anything else.",
    ),
    Rule("F2", "The last event ends with an empty line.", _ALL, "Clients that follow the SSE standard drop the event."),
    Rule(
        "F3",
        "A frame has all the fields that its type requires, with the right types.",
        _ALL,
        "Typed clients can't parse other frames.",
    ),
    Rule(
        "F4",
        "`event:` repeats `type` on `responses`, names the event on `services`, and is absent elsewhere. "
        "There is no `id:`, `retry:` or other field, and no comment inside an event.",
        _NONE,
        "Only Open Responses validators require `event:`.",
    ),
    Rule(
        "F5",
        "The content type is `text/event-stream`.",
        _ALL,
        "`EventSource` in browsers, and clients modelled on it, reject anything else.",
    ),
    Rule("F6", "Nothing follows `[DONE]`.", _ALL, "The OpenAI SDKs stop reading there."),
)

RESPONSES = (
    Rule(
        "I1",
        "`response.created` is the first frame and occurs once. All frames belong to an item, except "
        "lifecycle, `error`, `palaver:*` and trace frames.",
        _RESPONSES_ONLY,
        "`stream()` in both OpenAI SDKs fails; MLflow's own agents don't send `response.created`.",
    ),
    Rule(
        "I2",
        "The response id never changes.",
        _RESPONSES_ONLY,
        "OpenAI SDKs rely on this; MLflow clients don't read the id.",
    ),
    Rule(
        "I3",
        "Exactly one of `response.completed`, `response.failed` and `response.incomplete` occurs, as the last "
        "typed frame.",
        _RESPONSES_ONLY,
        "OpenAI SDKs and Open Responses validators require it; MLflow's own agents send none.",
    ),
    Rule(
        "I3b",
        "`[DONE]` is the last line.",
        _NONE,
        "Only Open Responses validators require it; OpenAI's servers don't send it.",
    ),
    Rule(
        "I4",
        "`sequence_number` counts 0, 1, 2, … without gaps.",
        _RESPONSES_ONLY,
        "`@ai-sdk/open-responses` and clients that resume streams rely on it; MLflow doesn't send it.",
    ),
    Rule(
        "I5",
        "`output_index` counts 0, 1, 2, … as items are added. Later frames of an item repeat its index, id, "
        "type and `call_id`.",
        _RESPONSES_ONLY,
        "`stream()` in both OpenAI SDKs relies on it; MLflow doesn't send it.",
    ),
    Rule(
        "I6",
        "Item ids are unique, and so are the `call_id`s of function calls.",
        _RESPONSES_AND_INVOCATIONS,
        "The Databricks provider loses text; the AI SDK mixes up tools.",
    ),
    Rule(
        "I7",
        "Every item that starts ends with `response.output_item.done`, and no other frame of the item follows.",
        _RESPONSES_AND_INVOCATIONS,
        "An unfinished item is missing from MLflow's traces; SDKs drop frames after the end.",
    ),
    Rule(
        "I7b",
        "An item starts with `response.output_item.added`, and each of its parts with its own `added` frame. "
        "Each part and each text has a `done` frame.",
        _RESPONSES_ONLY,
        "`stream()` in both OpenAI SDKs fails; MLflow's own agents send only deltas and finished items.",
    ),
    Rule(
        "I8",
        "Between the `added` and `done` frames of an item there are only its own frames or complete `palaver:*` items. "
        "An `mcp_call` and other items may overlap.",
        _RESPONSES_AND_INVOCATIONS,
        "The Databricks provider drops text; ChatOpenAI mixes up arguments.",
    ),
    Rule(
        "I9",
        "The joined deltas, the text of `.done` and the text of the item are equal. The same applies to "
        "arguments and refusals.",
        _RESPONSES_AND_INVOCATIONS,
        "Different clients show different answers.",
    ),
    Rule(
        "I10",
        "`content_index` and `summary_index` are 0.",
        _NONE,
        "Palaver's own convention: one part per item. OpenAI sends several.",
    ),
    Rule(
        "I10b",
        "`annotation_index` counts 0, 1, 2, …; annotations follow the last delta, and the finished part "
        "contains all of them.",
        _INVOCATIONS,
        "The Databricks provider loses the text after an annotation; OpenAI's servers mix deltas and annotations.",
    ),
    Rule(
        "I11",
        "Every function_call_output follows its function_call, which is in the stream or in the input, and "
        "occurs once.",
        _RESPONSES_AND_INVOCATIONS,
        "The AI SDK's stream fails.",
    ),
    Rule(
        "I12",
        "The terminal `output` lists the finished items by index, with the same ids, types, texts, arguments "
        "and outputs.",
        _RESPONSES_AND_INVOCATIONS,
        "The stored answer differs from the one that was shown.",
    ),
    Rule(
        "I12b",
        "The items of the terminal `output` equal the finished items in every field.",
        _NONE,
        "Palaver's own convention; SDKs accept either.",
    ),
    Rule(
        "I13",
        "A failed run sends `error` before `response.failed`. Other runs don't send `error`.",
        _INVOCATIONS,
        "The Databricks provider ignores `response.failed`.",
    ),
    Rule(
        "I13b",
        "The error frame has `code`, `message` and `param` both at the top level and in a nested `error`.",
        _NONE,
        "MLflow and LangChain read the top level, SDKs the nested object; OpenAI sends one of them.",
    ),
    Rule(
        "I14",
        "Custom event types start with `palaver:` and, like `responses.completed`, occur only on "
        "`invocations`. Items there have types that MLflow knows.",
        _RESPONSES_AND_INVOCATIONS,
        "`stream()` in openai-node throws on an unknown event, MLflow on an unknown item.",
    ),
    Rule("I14b", "Item types are OpenAI's or start with `palaver:`.", _NONE, "SDKs pass unknown items through."),
    Rule(
        "I15",
        "A message has the role `assistant` and at least one part, `annotations` is a list, and no id, "
        "call_id, text or output is null.",
        _RESPONSES_AND_INVOCATIONS,
        "MLflow's validation and the AI SDK's `generateText` fail.",
    ),
    Rule(
        "I15b",
        "A message has exactly one part, which is not empty.",
        _NONE,
        "Palaver's own convention; OpenAI sends several.",
    ),
    Rule(
        "I16",
        "The non-streamed body equals the terminal `response` of the same run. For a body of another run: "
        "both have output or neither does.",
        _RESPONSES_AND_INVOCATIONS,
        "Streamed and non-streamed answers differ.",
    ),
    Rule(
        "I16b",
        "The non-streamed body of another run has the same keys.",
        _NONE,
        "Servers may omit fields when not streaming.",
    ),
    Rule(
        "I17",
        "`responses.completed` has `usage` and `status`.",
        _INVOCATIONS,
        "The Databricks provider throws.",
    ),
    Rule(
        "I17b",
        "On `invocations`, `responses.completed` comes directly before the terminal frame.",
        _NONE,
        "Without it, the Databricks provider has no usage and no finish reason; MLflow's own agents don't send it.",
    ),
    Rule(
        "I18",
        "On `invocations`, a message has no refusal part, and every annotation is a url_citation with both indexes.",
        _INVOCATIONS,
        "The Databricks provider fails on a refusal, and `generateText` on any other annotation.",
    ),
    Rule(
        "B1",
        "A response object has `object`, an id and the status that matches its event. A failed one has "
        "`error`, an incomplete one a reason.",
        _RESPONSES_ONLY,
        "Every client that reads the final response fails; MLflow's bodies have no status.",
    ),
    Rule(
        "B2",
        "On `responses`, a response object has every key, and null only where it is allowed.",
        _NONE,
        "Only validators check this.",
    ),
    Rule(
        "B3",
        "On `invocations`, no field of a response object is null.",
        _INVOCATIONS,
        "`generateText` of the Databricks provider fails if `id`, `model`, `created_at` or `usage` is null.",
    ),
    Rule(
        "B4",
        "`usage` has three counts and both `*_details`, or is absent.",
        _INVOCATIONS,
        "MLflow validates `usage`; the OpenAI SDKs don't need it.",
    ),
)

CHAT_COMPLETIONS = (
    Rule(
        "C1",
        "Every chunk is a `chat.completion.chunk`, and all have the same string `id`.",
        _CHAT,
        "Some clients join chunks by id.",
    ),
    Rule("C1b", "All chunks have the same `created` and `model`.", _NONE, "No client checks this."),
    Rule(
        "C2",
        "Every chunk has one choice, with index 0. Only a chunk with `usage` may have none.",
        _CHAT,
        "Nearly every client reads `choices[0]`.",
    ),
    Rule(
        "C2b",
        "A choice has `logprobs` and `finish_reason`, which are null if unknown.",
        _NONE,
        "Typed clients work without them.",
    ),
    Rule("C3", "The first choice has `role: assistant`.", _CHAT, "`stream()` in openai-node throws: missing role."),
    Rule("C3b", "Later choices have no role.", _NONE, "SDKs accept it."),
    Rule(
        "C4",
        "One choice has a known `finish_reason`, unless the stream ends with an error.",
        _CHAT,
        "`stream()` in openai-node throws (missing finish_reason), and a truncated answer looks complete.",
    ),
    Rule("C4b", "The choice with `finish_reason` has an empty delta.", _NONE, "SDKs accept content there."),
    Rule(
        "C5",
        "Only usage may follow `finish_reason`, and nothing follows usage or an error.",
        _CHAT,
        "Clients stop reading there.",
    ),
    Rule(
        "C6",
        "Usage has its own chunk after `finish_reason`. All other chunks have `usage: null`, or none has the key.",
        _NONE,
        "SDKs accept usage anywhere.",
    ),
    Rule(
        "C7",
        "Tool calls have index 0, 1, 2, … and unique ids. Only the first piece of a call has id, type and name.",
        _CHAT,
        "SDKs throw if these are missing; LangChain concatenates repeated ones.",
    ),
    Rule(
        "C8",
        "The pieces of one tool call are not interleaved with those of another.",
        _NONE,
        "Clients join them by index.",
    ),
    Rule(
        "C9",
        "`finish_reason: tool_calls` occurs only after a tool call.",
        _CHAT,
        "Agents wait for a call that never comes.",
    ),
    Rule("C10", "Only the first and the finishing delta may be empty.", _NONE, "Empty deltas are just noise."),
    Rule("C11", "An error has `message`, `type`, `code` and `param`.", _CHAT, "SDKs can't show the error."),
    Rule("C12", "`[DONE]` is the last line.", _CHAT, "Some clients wait for it; OpenAI documents it as the end."),
    Rule(
        "C13",
        "The non-streamed body is a `chat.completion` with one choice: an assistant message and a known "
        "`finish_reason`.",
        _CHAT,
        "No client can read any other body.",
    ),
    Rule(
        "C14",
        "The non-streamed body equals the joined chunks of the stream. For a body of another run: both have "
        "content or neither does.",
        _CHAT,
        "Streamed and non-streamed answers differ.",
    ),
)

UI_STREAM = (
    Rule("U1", "Every part has a type that the client's version knows.", _UI, "The client's stream fails."),
    Rule(
        "U2",
        "`start` is the first part, occurs once and has a `messageId`.",
        _NONE,
        "Clients generate an id if there is none.",
    ),
    Rule(
        "U3",
        "`finish` or `abort` is the last part and occurs once.",
        _UI,
        "A truncated answer looks complete; clients don't expect anything after it.",
    ),
    Rule(
        "U4",
        "`start-step` and `finish-step` come in pairs, with the content between them and `finish` outside.",
        _NONE,
        "Clients only draw a line between steps.",
    ),
    Rule(
        "U5",
        "Text and reasoning start with `-start`, continue with `-delta` and end with `-end`.",
        _UI,
        "The client throws.",
    ),
    Rule("U5b", "An id is not reused after its `-end`.", _NONE, "Clients show a second part."),
    Rule(
        "U6",
        "Open text and reasoning end before `finish-step`, `finish`, `error` and `abort`.",
        _UI,
        "The client drops them there: the next delta throws, and the part stays `streaming`.",
    ),
    Rule(
        "U7",
        "The input of a tool call starts, continues and becomes available (or fails) once; then its output "
        "follows once. No part has an unknown `toolCallId`.",
        _UI,
        "The client throws.",
    ),
    Rule("U8", "For clients of version 5, a tool's output is in the same step as its call.", _UI, "Version 5 throws."),
    Rule(
        "U8b",
        "For clients of later versions, a tool's output is in the same step as its call.",
        _NONE,
        "Later versions search all steps.",
    ),
    Rule(
        "U9",
        "Content that starts after the tool outputs of a step is in a new step.",
        _NONE,
        "`useChat` may send one request too many.",
    ),
    Rule("U10", "The joined input deltas are the input as JSON text.", _NONE, "Clients show the final input."),
    Rule(
        "U11",
        "After `error`, the run finishes with `finishReason: error`.",
        _NONE,
        "Clients have already seen the error.",
    ),
    Rule("U12", "`finishReason` is a value that clients know.", _UI, "The client's schema is a closed list."),
    Rule("U13", "`[DONE]` is the last line.", _NONE, "Clients don't need it."),
    Rule(
        "U14",
        "The response has the header `x-vercel-ai-ui-message-stream: v1`.",
        _NONE,
        "The default transport doesn't check it.",
    ),
)

ANSWER_RULES = (
    Rule("E1", "A plain prompt is answered with status 200 before the timeout.", _ALL, "No client gets an answer."),
    Rule(
        "E2",
        "A malformed request (`input: 42`, `content: 42`, no `messages`) is answered with a 4xx status.",
        _ALL,
        "Validators check this; SDKs retry on 5xx.",
    ),
    Rule(
        "E3",
        'The error body is `{"error": {"message": …}}`; on `ui-stream` it is plain text, on `services` the '
        "error object.",
        _ALL,
        'OpenAI SDKs report "no body"; `useChat` shows the body verbatim.',
    ),
    Rule(
        "E4",
        "The `error` object has `type`, `code` and `param`, and the body also has `detail`.",
        _NONE,
        "MLflow clients show `detail`.",
    ),
)

GROUPS: Mapping[str, tuple[Rule, ...]] = {
    "Framing (all protocols)": FRAMING,
    "Responses": RESPONSES,
    "Chat Completions": CHAT_COMPLETIONS,
    "UI message stream": UI_STREAM,
    "Services": SERVICE_RULES,
    "HTTP responses (all protocols)": ANSWER_RULES,
}
RULES: Mapping[str, Rule] = {rule.id: rule for group in GROUPS.values() for rule in group}


def severity(rule: str, protocol: Protocol) -> Severity:
    return "must" if protocol in RULES[rule].required_by else "should"
