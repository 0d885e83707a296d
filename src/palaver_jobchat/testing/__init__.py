"""Job Chat without a model, for tests and for a rehearsal: a provider of our own that plays a script.

    with FakeAnthropic([{"text": "Hello"}]) as fake:
        ...  # fake.url, fake.requests, fake.hung_up

steps           what a script says       wire         the same as Anthropic's API would send it
fake_anthropic  the server               connections  its HTTP        checking  what it refuses, as Anthropic does
rehearsal       chooses steps that suit the question, for a demonstration
"""

from palaver_jobchat.testing.fake_anthropic import FakeAnthropic, ReceivedRequest, serve
from palaver_jobchat.testing.script import ScriptStep, read_script

__all__ = ["FakeAnthropic", "ReceivedRequest", "ScriptStep", "read_script", "serve"]
