"""All errors that Palaver raises on purpose.

Each class has a stable `code` for programs; the message is one human-readable line. The HTTP status of a code is
defined in server/error_responses.py; nothing here knows about HTTP.

    PalaverError
    ├── Failure                     an author ends a run on purpose; the code is the author's own
    ├── DeclarationError            an invalid declaration; raised while a module is loaded
    │   ├── ChatWithoutMessages     ContradictoryFlags     InvalidFlag
    │   └── InvalidName             NotAWorkflow           InvalidOption
    ├── LoadError                   a target on the command line cannot be served
    │   ├── TargetNotFound          LoadFailed             DuplicateName          NothingFound
    ├── SettingsError               an invalid setting
    ├── RequestError                a request that cannot be accepted
    │   ├── InvalidJson             TooDeep                InvalidBody            InvalidType
    │   ├── InvalidValue            ConflictingFields      MisplacedField         UnsupportedFlag
    │   ├── InvalidSessionId        UnknownCall            NotFound               WorkflowNotFound
    │   ├── RunNotFound             MethodNotAllowed       NotAcceptable          UnsupportedMediaType
    │   ├── RequestTimeout          TooLarge               WrongHost              ForeignOrigin
    │   ├── Unauthorized            MissingScope           RateLimited            NameTaken
    │   ├── NotImplementedYet       NotCancellable         StillRunning           ConversationLocked
    │   ├── HistoryConflict         StaleBase              IdempotencyMismatch    QueryTimeout
    │   ├── NotOpen
    │   ├── ObjectNotFound          a stored object that does not exist, or is another project's
    │   │   ├── ResponseNotFound    ConversationNotFound   ItemNotFound
    │   │   └── ThreadNotFound      ApprovalNotFound
    │   ├── FaultyCall              several faults of a call
    │   └── CallFault               one fault of a call
    │       ├── MissingInput        UnknownInput           InvalidInput
    │       └── InvalidMessages     UnknownParameter       InvalidParameter
    ├── RunError                    why a run failed
    │   ├── WorkflowFailed          BadStream              TooManyEvents          TooMuchOutput
    │   ├── RunTimeout              ShuttingDown           Overloaded             DiskFull
    │   └── UpstreamFailed          UpstreamTimeout
    └── DiscoveryError              a service at a URL could not be used
        └── NotDiscovered           DiscoveryRefused       UrlRefused
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar, Literal


class PalaverError(Exception):
    """Base class of the errors that Palaver raises.

    Args:
        message: The problem and what to do about it, in one human-readable line.
        details: Additional data about the error, as JSON.

    Example:
        from palaver import PalaverError, chat

        try:
            chat(print, name="not a name")
        except PalaverError as error:
            assert error.code == "invalid_name"
    """

    code: str = "internal"
    """Stable, machine-readable code. Each subclass has its own."""

    def __init__(self, message: str, *, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.details: Mapping[str, Any] = details or {}


class Failure(PalaverError):
    """Raise this to end a run with an error for the caller. Other exceptions of a workflow are hidden from the caller.

    Args:
        code: Machine-readable code that you choose, such as `unknown_city`.
        message: One human-readable line.
        status: HTTP status from 400 to 599. By default, that of the built-in error with the same code, or 500.
        details: Additional data about the error, as JSON.

    Example:
        from palaver import Failure, workflow


        @workflow
        def population(city: str) -> int:
            if city != "Oslo":
                raise Failure("unknown_city", f"City {city!r} not found.", status=404)
            return 717_710
    """

    def __init__(
        self, code: str, message: str, *, status: int | None = None, details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, details=details)
        self.code = code
        self.status = status if status is None or 400 <= status <= 599 else 500


# Before anything runs: declarations, targets, settings


class DeclarationError(PalaverError):
    """An invalid declaration."""

    code = "invalid_declaration"


class ChatWithoutMessages(DeclarationError):
    """A chat has no parameter for the history."""

    code = "chat_without_messages"


class ContradictoryFlags(DeclarationError):
    """The flags contradict the decorator."""

    code = "contradictory_flags"


class InvalidFlag(DeclarationError):
    """A flag that is not a boolean, or that belongs to the call."""

    code = "invalid_flag"


class InvalidName(DeclarationError):
    """A workflow name that is not URL-safe."""

    code = "invalid_name"


class NotAWorkflow(DeclarationError):
    """An object that can be neither called nor wrapped."""

    code = "not_a_workflow"


class InvalidOption(DeclarationError):
    """An invalid option of @chat or @workflow."""

    code = "invalid_option"


class LoadError(PalaverError):
    """A target cannot be served."""

    code = "load_failed"


class TargetNotFound(LoadError):
    """No such file, folder, module or name."""

    code = "target_not_found"


class LoadFailed(LoadError):
    """Importing the author's module raised."""


class NothingFound(LoadError):
    """The target was loaded and declares no workflow."""

    code = "nothing_found"


class DuplicateName(LoadError):
    """Two workflows with the same name."""

    code = "duplicate_name"


class SettingsError(PalaverError):
    """An invalid setting."""

    code = "invalid_setting"


# Requests that cannot be accepted


class RequestError(PalaverError):
    """A request that cannot be accepted. `pointer` is a JSON pointer into the body as it was sent."""

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
    """JSON of the wrong structure."""

    code = "invalid_body"


class InvalidType(RequestError):
    """A field of the wrong type."""

    code = "invalid_type"


class InvalidValue(RequestError):
    """A value outside its range, list or pattern."""


class ConflictingFields(RequestError):
    """Two fields that contradict each other."""

    code = "conflicting_fields"


class MisplacedField(RequestError):
    """A field in the wrong place."""

    code = "misplaced_field"


class UnsupportedFlag(RequestError):
    """A flag of the call that is not supported."""

    code = "unsupported_flag"


class InvalidSessionId(RequestError):
    """A session id that does not match its pattern."""

    code = "invalid_session_id"


class UnknownCall(RequestError):
    """A tool result in the history without an open call."""

    code = "unknown_call"


class NotFound(RequestError):
    """No such route or object."""

    code = "not_found"


class WorkflowNotFound(RequestError):
    """No workflow has this name."""

    code = "workflow_not_found"

    def __init__(self, name: str | None, *, known: Collection[str]) -> None:
        self.name = name
        self.available = ", ".join(sorted(known)) or "none"
        problem = "No workflow specified and no default set" if name is None else f"Workflow {name!r} not found"
        super().__init__(f"{problem}. Available: {self.available}.")


class NotImplementedYet(RequestError):
    """A feature of the protocol that is not supported yet."""

    code = "not_implemented"


class RunNotFound(RequestError):
    """No run has this id."""

    code = "run_not_found"


class MethodNotAllowed(RequestError):
    """The route exists, but not for this method."""

    code = "method_not_allowed"

    def __init__(self, method: str, path: str, *, allowed: Collection[str], reason: str = "") -> None:
        self.allowed = sorted(allowed)
        use = f"Use {' or '.join(self.allowed)}."
        super().__init__(f"{method} is not allowed on {path}. {reason or use}")


class NotAcceptable(RequestError):
    """None of the accepted media types is available."""

    code = "not_acceptable"

    def __init__(self, message: str, *, supported: Sequence[str]) -> None:
        super().__init__(message, details={"supported": list(supported)})


class UnsupportedMediaType(RequestError):
    """The body's content type is not supported."""

    code = "unsupported_media_type"


class RequestTimeout(RequestError):
    """The body arrived too slowly."""

    code = "request_timeout"


class TooLarge(RequestError):
    """A size limit was exceeded. `part` is "body", "url", "headers" or "string"."""

    code = "too_large"

    def __init__(self, message: str, *, part: str = "body", pointer: str | None = None) -> None:
        super().__init__(message, pointer=pointer)
        self.part = part


class WrongHost(RequestError):
    """The Host header names another host."""

    code = "wrong_host"


class ForeignOrigin(RequestError):
    """A page of another origin sent a state-changing request."""

    code = "foreign_origin"


class CallFault(RequestError):
    """One fault in a well-formed call."""


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
    """The history is not messages in a known dialect."""

    code = "invalid_messages"


class UnknownParameter(CallFault):
    """A parameter that the workflow does not declare."""

    code = "unknown_parameter"


class InvalidParameter(CallFault):
    """A parameter of the wrong type or value."""

    code = "invalid_parameter"


class FaultyCall(RequestError):
    """All faults of a call, up to MAX_FAULTS; code and message are those of the first."""

    MAX_FAULTS: ClassVar[int] = 20

    def __init__(self, faults: Sequence[CallFault]) -> None:
        self.faults = tuple(faults[: self.MAX_FAULTS])
        super().__init__(faults[0].message, pointer=faults[0].pointer)
        self.code = faults[0].code


class ObjectNotFound(NotFound):
    """An object that does not exist or belongs to another project; the message does not tell which."""

    noun: ClassVar[str] = "Object"

    def __init__(self, name: str, *, pointer: str | None = None) -> None:
        super().__init__(f"{self.noun} {name[:80]!r} not found.", pointer=pointer)


class ResponseNotFound(ObjectNotFound):
    """No stored response has this id."""

    code = "response_not_found"
    noun = "Response"


class ConversationNotFound(ObjectNotFound):
    """No conversation has this id."""

    code = "conversation_not_found"
    noun = "Conversation"


class ItemNotFound(ObjectNotFound):
    """No stored item has this id."""

    code = "item_not_found"
    noun = "Item"


class ThreadNotFound(ObjectNotFound):
    """No thread has this id."""

    code = "thread_not_found"
    noun = "Thread"


class ApprovalNotFound(ObjectNotFound):
    """No pending approval has this id."""

    code = "approval_not_found"
    noun = "Pending approval"


class NotCancellable(RequestError):
    """The run has already ended."""

    code = "not_cancellable"


class StillRunning(RequestError):
    """A run must end first."""

    code = "still_running"


class NotOpen(RequestError):
    """The review is closed, or the item is assigned to other reviewers."""

    code = "not_open"


class ConversationLocked(RequestError):
    """Another run is in progress in this conversation."""

    code = "conversation_locked"


class HistoryConflict(RequestError):
    """The history that was sent contradicts the stored one."""

    code = "history_conflict"


class Unauthorized(RequestError):
    """A missing, invalid or expired credential; the message does not tell which."""

    code = "unauthorized"

    def __init__(self, message: str = "Missing or invalid API key. Send it as 'Authorization: Bearer plv_…'.") -> None:
        super().__init__(message)


class MissingScope(RequestError):
    """The credential lacks a scope."""

    code = "missing_scope"

    def __init__(self, scope: str, *, reason: str = "") -> None:
        self.scope = scope
        super().__init__(reason or f"This request needs an API key with the scope {scope!r}.", details={"scope": scope})


class RateLimited(RequestError):
    """The rate limit of a key or address was exceeded. `retry_after` is in whole seconds."""

    code = "rate_limited"

    def __init__(self, message: str, *, retry_after: int = 1) -> None:
        self.retry_after = retry_after
        super().__init__(message)


class QueryTimeout(RequestError):
    """A database query exceeded its time limit."""

    code = "query_timeout"


class NameTaken(RequestError):
    """The name is already in use."""

    code = "name_taken"


class StaleBase(RequestError):
    """The change is based on an outdated state. `by` is what named it: the body's `base`, or an ETag."""

    code = "stale_base"

    def __init__(
        self, message: str, *, by: Literal["base", "etag"] = "base", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message, details=details)
        self.by = by


class IdempotencyMismatch(RequestError):
    """The Idempotency-Key was used with another body."""

    code = "idempotency_mismatch"


# Runs that failed, and discovery


class RunError(PalaverError):
    """Why a run failed."""

    code = "workflow_failed"


class WorkflowFailed(RunError):
    """The author's code raised; clients only learn the run's id."""


class BadStream(RunError):
    """The output violated the event grammar, or was not JSON."""

    code = "bad_stream"


class FormatMismatch(RunError):
    """The reply does not have the format that the request requires."""

    code = "format_mismatch"


class TooManyEvents(RunError):
    """The run exceeded its limit of events."""

    code = "too_many_events"


class TooMuchOutput(RunError):
    """The run exceeded its limit of bytes."""

    code = "too_large"


class RunTimeout(RunError):
    """The run exceeded its time limit."""

    code = "timeout"


class ShuttingDown(RunError):
    """The server is stopping."""

    code = "shutting_down"

    def __init__(
        self,
        message: str = "The server is shutting down. Try again shortly.",
        *,
        details: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(message, details=details)


class Overloaded(RunError):
    """The process is at its limit of streams, or its database is unreachable."""

    code = "overloaded"


class DiskFull(RunError):
    """The disk is full."""

    code = "disk_full"


class UpstreamFailed(RunError):
    """A remote workflow failed or broke off."""

    code = "upstream_failed"


class UpstreamTimeout(RunError):
    """A remote workflow did not answer in time."""

    code = "upstream_timeout"


class DiscoveryError(PalaverError):
    """A service at a URL could not be used."""

    code = "not_discovered"


class NotDiscovered(DiscoveryError):
    """No supported protocol was found at the URL."""


class DiscoveryRefused(DiscoveryError):
    """The service requires credentials."""

    code = "discovery_refused"


class UrlRefused(DiscoveryError):
    """A URL that is not allowed."""

    code = "url_refused"
