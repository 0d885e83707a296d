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

from palaver.errors.base import (
    Failure,
    PalaverError,
)
from palaver.errors.declarations import (
    ChatWithoutMessages,
    ContradictoryFlags,
    DeclarationError,
    DuplicateName,
    InvalidFlag,
    InvalidName,
    InvalidOption,
    LoadError,
    LoadFailed,
    NotAWorkflow,
    NothingFound,
    ReservedName,
    SettingsError,
    TargetNotFound,
)
from palaver.errors.requests import (
    ApprovalNotFound,
    CallFault,
    ConflictingFields,
    ConversationLocked,
    ConversationNotFound,
    FaultyCall,
    ForeignOrigin,
    HistoryConflict,
    IdempotencyMismatch,
    InvalidBody,
    InvalidInput,
    InvalidJson,
    InvalidMessages,
    InvalidParameter,
    InvalidSessionId,
    InvalidType,
    InvalidValue,
    ItemNotFound,
    MethodNotAllowed,
    MisplacedField,
    MissingInput,
    MissingScope,
    NameTaken,
    NotAcceptable,
    NotCancellable,
    NotFound,
    NotImplementedYet,
    NotOpen,
    ObjectNotFound,
    QueryTimeout,
    RateLimited,
    RequestError,
    RequestTimeout,
    ResponseNotFound,
    RunNotFound,
    StaleBase,
    StillRunning,
    ThreadNotFound,
    TooDeep,
    TooLarge,
    Unauthorized,
    UnknownCall,
    UnknownInput,
    UnknownParameter,
    UnsupportedFlag,
    UnsupportedMediaType,
    WorkflowNotFound,
    WrongHost,
)
from palaver.errors.runs import (
    BadStream,
    DiscoveryError,
    DiscoveryRefused,
    DiskFull,
    NotDiscovered,
    Overloaded,
    RunError,
    RunTimeout,
    ShuttingDown,
    TooManyEvents,
    TooMuchOutput,
    UpstreamFailed,
    UpstreamTimeout,
    UrlRefused,
    WorkflowFailed,
)

__all__ = [
    "ApprovalNotFound",
    "BadStream",
    "CallFault",
    "ChatWithoutMessages",
    "ConflictingFields",
    "ContradictoryFlags",
    "ConversationLocked",
    "ConversationNotFound",
    "DeclarationError",
    "DiscoveryError",
    "DiscoveryRefused",
    "DiskFull",
    "DuplicateName",
    "Failure",
    "FaultyCall",
    "ForeignOrigin",
    "HistoryConflict",
    "IdempotencyMismatch",
    "InvalidBody",
    "InvalidFlag",
    "InvalidInput",
    "InvalidJson",
    "InvalidMessages",
    "InvalidName",
    "InvalidOption",
    "InvalidParameter",
    "InvalidSessionId",
    "InvalidType",
    "InvalidValue",
    "ItemNotFound",
    "LoadError",
    "LoadFailed",
    "MethodNotAllowed",
    "MisplacedField",
    "MissingInput",
    "MissingScope",
    "NameTaken",
    "NotAWorkflow",
    "NotAcceptable",
    "NotCancellable",
    "NotDiscovered",
    "NotFound",
    "NotImplementedYet",
    "NotOpen",
    "NothingFound",
    "ObjectNotFound",
    "Overloaded",
    "PalaverError",
    "QueryTimeout",
    "RateLimited",
    "RequestError",
    "RequestTimeout",
    "ReservedName",
    "ResponseNotFound",
    "RunError",
    "RunNotFound",
    "RunTimeout",
    "SettingsError",
    "ShuttingDown",
    "StaleBase",
    "StillRunning",
    "TargetNotFound",
    "ThreadNotFound",
    "TooDeep",
    "TooLarge",
    "TooManyEvents",
    "TooMuchOutput",
    "Unauthorized",
    "UnknownCall",
    "UnknownInput",
    "UnknownParameter",
    "UnsupportedFlag",
    "UnsupportedMediaType",
    "UpstreamFailed",
    "UpstreamTimeout",
    "UrlRefused",
    "WorkflowFailed",
    "WorkflowNotFound",
    "WrongHost",
]
