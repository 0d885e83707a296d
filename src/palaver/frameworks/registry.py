"""Install step listeners into the frameworks that are loaded in this process, so that their steps are traced anywhere.

No framework is imported for this. Adapters that report the steps of their own runs, as Pydantic AI's, are not listed.
"""

import logging
import sys
from importlib import import_module

log = logging.getLogger("palaver.frameworks")

_pending = {
    "langchain_core.callbacks.manager": "palaver.frameworks.langchain.steps",
    "agents.tracing": "palaver.frameworks.openai_agents.steps",
}
"""A module of a framework to our module with its listener; removed once it is installed."""


def install_step_listeners() -> None:
    """Install the listeners of all frameworks that have been loaded."""
    for theirs in [theirs for theirs in _pending if theirs in sys.modules]:
        ours = _pending.pop(theirs)
        try:
            import_module(ours).install_listener()
        except Exception:  # An incompatible version of a framework must not break a run.
            log.warning("The steps of %s cannot be heard", theirs.partition(".")[0], exc_info=True)
