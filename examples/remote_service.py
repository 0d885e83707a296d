"""Services elsewhere as workflows of yours: called over every protocol here, whatever they speak themselves.

palaver serve examples/streaming_generator.py & palaver serve examples/remote_service.py --port 8643
"""

import os

from palaver import connect

ELSEWHERE = os.environ.get("STORYTELLER_URL", "http://127.0.0.1:8642")
HEADERS = {"authorization": f"Bearer {os.environ.get('STORYTELLER_KEY', 'none')}"}
"""Sent to that service only, and never shown."""

# A Palaver service describes itself. If it is unreachable now, it is asked again when it is called.
far_storyteller = connect(f"{ELSEWHERE}/storyteller", name="far_storyteller", is_chat=True, headers=HEADERS)

# Any service with OpenAI's Chat Completions: it does not describe itself, so you do.
model_storyteller = connect(
    f"{ELSEWHERE}/v1",
    name="model_storyteller",
    is_chat=True,
    dialect="chat-completions",
    model="storyteller",
    headers=HEADERS,
)
