"""Job Chat without a model: a fake provider that plays a script, for tests and rehearsals.

    with FakeAnthropic([{"text": "Hello"}]) as fake:
        ...  # fake.url, fake.requests, fake.hung_up

Modules:

    fake_anthropic        the HTTP server
    script                the steps that it plays
    request_validation    the requests that it rejects, as Anthropic does
"""

from palaver_jobchat.testing.fake_anthropic import FakeAnthropic, ReceivedRequest, serve
from palaver_jobchat.testing.script import ScriptStep, read_script

__all__ = ["FakeAnthropic", "ReceivedRequest", "ScriptStep", "read_script", "serve"]
