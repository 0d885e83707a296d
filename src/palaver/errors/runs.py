"""Why a run ended badly, and why a stranger's URL could not be understood."""

from palaver.errors.base import PalaverError


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
