"""Every error that Palaver raises on purpose.

Each class has a stable `code` for programs and a one-line message for people: what happened, to what, and what to do.
Which HTTP status a code means is decided in one place, server/error_responses.py; nothing here knows about HTTP.

    PalaverError
    ├── Failure                     an author ends a run on purpose; the code is the author's own
    ├── DeclarationError            the author's declaration is wrong; raised while a module is loaded
    │   ├── ChatWithoutMessages     ContradictoryFlags     InvalidFlag
    │   ├── InvalidName             ReservedName           NotAWorkflow
    │   └── InvalidOption
    ├── LoadError                   a target on the command line cannot be served
    │   ├── TargetNotFound          LoadFailed             DuplicateName          NothingFound
    ├── SettingsError               a setting that cannot be honoured
    ├── RequestError                the caller's request cannot be taken
    │   ├── InvalidJson             TooDeep                InvalidBody            InvalidType
    │   ├── InvalidValue            ConflictingFields      MisplacedField         UnsupportedFlag
    │   ├── InvalidSessionId        UnknownCall            NotFound               WorkflowNotFound
    │   ├── RunNotFound             MethodNotAllowed       NotAcceptable          UnsupportedMediaType
    │   ├── RequestTimeout          TooLarge               WrongHost              ForeignOrigin
    │   ├── Unauthorized            MissingScope           RateLimited            NameTaken
    │   ├── NotImplementedYet       NotCancellable         StillRunning           ConversationLocked
    │   ├── HistoryConflict         StaleBase              IdempotencyMismatch    QueryTimeout
    │   ├── NotOpen
    │   ├── ObjectNotFound          something stored that is not there, or is another project's
    │   │   ├── ResponseNotFound    ConversationNotFound   ItemNotFound
    │   │   └── ThreadNotFound      ApprovalNotFound
    │   ├── FaultyCall              several of the next kind, together
    │   └── CallFault               one thing that the workflow cannot take
    │       ├── MissingInput        UnknownInput           InvalidInput
    │       └── InvalidMessages     UnknownParameter       InvalidParameter
    ├── RunError                    why a run ended badly
    │   ├── WorkflowFailed          BadStream              TooManyEvents          TooMuchOutput
    │   ├── RunTimeout              ShuttingDown           Overloaded             DiskFull
    │   └── UpstreamFailed          UpstreamTimeout
    └── DiscoveryError              a stranger's URL could not be understood
        └── NotDiscovered           DiscoveryRefused       UrlRefused
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal


class PalaverError(Exception):
    """The root of all errors of ours."""

    code: str = "internal"

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details or {}


class Failure(PalaverError):
    """Ends a run on purpose: `raise Failure("no_such_city", "I do not know Atlantis.", status=404)`."""

    def __init__(
        self, code: str, message: str, *, status: int | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, details=details)
        self.code = code
        self.status = status if status is None or 400 <= status <= 599 else 500


# Before anything runs: declarations, targets, settings


class DeclarationError(PalaverError):
    """A declaration that cannot mean anything."""

    code = "invalid_declaration"


class ChatWithoutMessages(DeclarationError):
    """A chat has no place for the history."""

    code = "chat_without_messages"


class ContradictoryFlags(DeclarationError):
    """The flags say the opposite of the decorator."""

    code = "contradictory_flags"


class InvalidFlag(DeclarationError):
    """A flag that is no boolean, or whose name belongs to the call."""

    code = "invalid_flag"


class InvalidName(DeclarationError):
    """A workflow name that cannot stand in a URL."""

    code = "invalid_name"


class ReservedName(DeclarationError):
    """A workflow name that is the first segment of one of our own routes."""

    code = "reserved_name"


class NotAWorkflow(DeclarationError):
    """Something that can be neither called nor wrapped."""

    code = "not_a_workflow"


class InvalidOption(DeclarationError):
    """An option of @chat or @workflow outside its list of words."""

    code = "invalid_option"


class LoadError(PalaverError):
    """A target cannot be served."""

    code = "load_failed"


class TargetNotFound(LoadError):
    """No such file, folder, module or name."""

    code = "target_not_found"


class LoadFailed(LoadError):
    """Importing the author's module raised."""

    code = "load_failed"


class NothingFound(LoadError):
    """The target was loaded and declares no workflow."""

    code = "nothing_found"


class DuplicateName(LoadError):
    """Two workflows of one name."""

    code = "duplicate_name"


class SettingsError(PalaverError):
    """A setting that cannot be honoured."""

    code = "invalid_setting"


# Requests that cannot be accepted


class RequestError(PalaverError):
    """The caller's request cannot be taken. `pointer` is a JSON pointer into the body as it was sent."""

    code = "invalid_value"

    def __init__(self, message: str, *, pointer: str | None = None, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message, details=details)
        self.pointer = pointer


class InvalidJson(RequestError):
    """Not JSON, or not UTF-8."""

    code = "invalid_json"


class TooDeep(RequestError):
    """JSON nested beyond the limit."""

    code = "too_deep"


class InvalidBody(RequestError):
    """JSON of the wrong form."""

    code = "invalid_body"


class InvalidType(RequestError):
    """A field of the wrong type."""

    code = "invalid_type"


class InvalidValue(RequestError):
    """A value outside its range, list or pattern."""

    code = "invalid_value"


class ConflictingFields(RequestError):
    """The same thing said twice, differently."""

    code = "conflicting_fields"


class MisplacedField(RequestError):
    """A field in a place where it is not read."""

    code = "misplaced_field"


class UnsupportedFlag(RequestError):
    """A flag of the call that we do not honour."""

    code = "unsupported_flag"


class InvalidSessionId(RequestError):
    """A session id that does not match its pattern."""

    code = "invalid_session_id"


class UnknownCall(RequestError):
    """A tool result in the history that answers no open call."""

    code = "unknown_call"


class NotFound(RequestError):
    """No such route or object."""

    code = "not_found"


class WorkflowNotFound(RequestError):
    """No workflow of this name is registered."""

    code = "workflow_not_found"

    def __init__(self, name: str | None, *, known: Collection[str]) -> None:
        self.name = name
        names = ", ".join(sorted(known)) or "none"
        asked = "Several workflows are served and none is the default" if name is None else f"No workflow {name!r}"
        super().__init__(f"{asked}. Known: {names}.")


class NotImplementedYet(RequestError):
    """Something that the protocol has and we do not serve yet."""

    code = "not_implemented"


class RunNotFound(RequestError):
    """No run of this id is known."""

    code = "run_not_found"


class MethodNotAllowed(RequestError):
    """The route exists, but not for this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, path: str, *, allowed: Collection[str], reason: str = "") -> None:
        self.allowed = sorted(allowed)
        use = f"Use {' or '.join(self.allowed)}."
        super().__init__(f"{method} is not allowed on {path}. {reason or use}")


class NotAcceptable(RequestError):
    """None of the forms that the caller accepts can be given."""

    code = "not_acceptable"

    def __init__(self, message: str, *, supported: Sequence[str]) -> None:
        super().__init__(message, details={"supported": list(supported)})


class UnsupportedMediaType(RequestError):
    """The body's content type is not read here."""

    code = "unsupported_media_type"


class RequestTimeout(RequestError):
    """The body came too slowly."""

    code = "request_timeout"


class TooLarge(RequestError):
    """Beyond a size limit. `part` tells which one: "body", "url", "headers" or "string"."""

    code = "too_large"

    def __init__(self, message: str, *, part: str = "body", pointer: str | None = None) -> None:
        super().__init__(message, pointer=pointer)
        self.part = part


class WrongHost(RequestError):
    """The Host header names somebody else."""

    code = "wrong_host"


class ForeignOrigin(RequestError):
    """A page of another origin tried to change something."""

    code = "foreign_origin"


class CallFault(RequestError):
    """One thing that the workflow cannot take. The form of the request was right."""


class MissingInput(CallFault):
    """A required input is absent."""

    code = "missing_input"


class UnknownInput(CallFault):
    """An input that the workflow does not declare."""

    code = "unknown_input"


class InvalidInput(CallFault):
    """An input of the wrong type or value."""

    code = "invalid_input"


class InvalidMessages(CallFault):
    """The history is not messages in a dialect that we read."""

    code = "invalid_messages"


class UnknownParameter(CallFault):
    """A parameter that the workflow does not declare."""

    code = "unknown_parameter"


class InvalidParameter(CallFault):
    """A parameter of the wrong type or value."""

    code = "invalid_parameter"


class FaultyCall(RequestError):
    """Everything that is wrong with a call, at most twenty faults; code and message are those of the first."""

    MOST: ClassVar[int] = 20

    def __init__(self, faults: Sequence[CallFault]) -> None:
        self.faults = tuple(faults[: self.MOST])
        super().__init__(faults[0].message, pointer=faults[0].pointer)
        self.code = faults[0].code


class ObjectNotFound(NotFound):
    """An object that is not there, or is another project's: nobody is told which."""

    word: ClassVar[str] = "object"

    def __init__(self, name: str, *, pointer: str | None = None) -> None:
        super().__init__(f"There is no {self.word} {name[:80]!r}.", pointer=pointer)


class ResponseNotFound(ObjectNotFound):
    """No stored response has this id."""

    code = "response_not_found"
    word = "stored response"


class ConversationNotFound(ObjectNotFound):
    """No conversation has this id."""

    code = "conversation_not_found"
    word = "conversation"


class ItemNotFound(ObjectNotFound):
    """No stored item has this id."""

    code = "item_not_found"
    word = "stored item"


class ThreadNotFound(ObjectNotFound):
    """No thread has this id."""

    code = "thread_not_found"
    word = "thread"


class ApprovalNotFound(ObjectNotFound):
    """Nothing of this id waits for an approval."""

    code = "approval_not_found"
    word = "pending approval"


class NotCancellable(RequestError):
    """It has ended, and not by being cancelled."""

    code = "not_cancellable"


class StillRunning(RequestError):
    """A run must end first."""

    code = "still_running"


class NotOpen(RequestError):
    """A review that is closed, or an item of it that others have, takes no answer."""

    code = "not_open"


class ConversationLocked(RequestError):
    """Another turn runs in this conversation."""

    code = "conversation_locked"


class HistoryConflict(RequestError):
    """The history that was sent contradicts the stored one."""

    code = "history_conflict"


class Unauthorized(RequestError):
    """No credential, or one that is not, or no longer, good. Nobody is told which."""

    code = "unauthorized"

    def __init__(self, message: str = "A valid key is needed: send authorization: Bearer plv_….") -> None:
        super().__init__(message)


class MissingScope(RequestError):
    """The credential is good, but not for this."""

    code = "missing_scope"

    def __init__(self, scope: str, *, reason: str = "") -> None:
        self.scope = scope
        super().__init__(reason or f"This needs a key with the scope {scope}.", details={"scope": scope})


class RateLimited(RequestError):
    """More than a key, or an address, may ask for. `retry_after` is in whole seconds."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class QueryTimeout(RequestError):
    """A question took longer than questions may."""

    code = "query_timeout"


class NameTaken(RequestError):
    """Another one has this name."""

    code = "name_taken"


class StaleBase(RequestError):
    """Made from a state that is no longer the current one. `by` tells what named it: the body's `base`, or an ETag."""

    code = "stale_base"

    def __init__(
        self, message: str, *, by: Literal["base", "etag"] = "base", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, details=details)
        self.by = by


class IdempotencyMismatch(RequestError):
    """An Idempotency-Key that was used with another body."""

    code = "idempotency_mismatch"


# Runs that failed, and discovery


class RunError(PalaverError):
    """Why a run ended badly."""

    code = "workflow_failed"


class WorkflowFailed(RunError):
    """The author's code raised something of its own; strangers learn the run's id and no more."""

    code = "workflow_failed"


class BadStream(RunError):
    """The workflow broke the grammar of events, or gave something that is not JSON."""

    code = "bad_stream"


class TooManyEvents(RunError):
    """The run went over its limit of events."""

    code = "too_many_events"


class TooMuchOutput(RunError):
    """The run went over its limit of bytes."""

    code = "too_large"


class RunTimeout(RunError):
    """The run went over its limit of seconds."""

    code = "timeout"


class ShuttingDown(RunError):
    """The server is stopping."""

    code = "shutting_down"


class Overloaded(RunError):
    """The process has no room for another stream, or its database cannot be reached."""

    code = "overloaded"


class DiskFull(RunError):
    """Nothing more can be written."""

    code = "disk_full"


class UpstreamFailed(RunError):
    """A remote workflow failed or broke off."""

    code = "upstream_failed"


class UpstreamTimeout(RunError):
    """A remote workflow did not answer in time."""

    code = "upstream_timeout"


class DiscoveryError(PalaverError):
    """A stranger's URL could not be understood."""

    code = "not_discovered"


class NotDiscovered(DiscoveryError):
    """Nothing at that URL says what it is."""

    code = "not_discovered"


class DiscoveryRefused(DiscoveryError):
    """The service wants credentials."""

    code = "discovery_refused"


class UrlRefused(DiscoveryError):
    """A URL that we do not connect to."""

    code = "url_refused"
