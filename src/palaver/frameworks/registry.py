"""Who tells of steps by itself: frameworks that are loaded in this process and can be listened to wherever they run.

So a model that a plain function calls is heard too. No framework is imported for that: those that are not loaded have
nothing to tell. An adapter may also tell of what it runs itself, as Pydantic AI's does, and need not stand here.
"""

import logging
import sys
from importlib import import_module

log = logging.getLogger("palaver.frameworks")

_pending = {
    "langchain_core.callbacks.manager": "palaver.frameworks.langchain.steps",
    "agents.tracing": "palaver.frameworks.openai_agents.steps",
}
"""By a module of a framework's, the module of ours that has it tell; those that were not loaded yet."""


def install_step_listeners() -> None:
    """Have the frameworks that are loaded tell of their steps, from now on, to whoever listens."""
    for theirs in [theirs for theirs in _pending if theirs in sys.modules]:
        ours = _pending.pop(theirs)
        try:
            import_module(ours).install_listener()
        except Exception:  # A framework that is not as we know it must not cost anybody a run.
            log.warning("The steps of %s cannot be heard", theirs.partition(".")[0], exc_info=True)
