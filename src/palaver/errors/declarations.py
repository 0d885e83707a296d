"""What is wrong before anything runs: declarations, targets, settings."""

from palaver.errors.base import PalaverError


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
