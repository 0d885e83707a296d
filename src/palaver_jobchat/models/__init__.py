"""Models: who answers a prompt. Each provider is one file with one `ask`; what they all say is base.py.

choosing    which of them                anthropic, openai, scripted    the providers
failures    what their errors mean       retrying    another try before the first byte
calls       a tool's call, piecewise     per_loop    one client for each event loop
"""

from palaver_jobchat.models.factory import create_model

__all__ = ["create_model"]
