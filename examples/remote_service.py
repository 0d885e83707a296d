"""Remote services as workflows: callable over every protocol, whichever one they use themselves.

palaver serve examples/streaming_generator.py & palaver serve examples/remote_service.py --port 8643
"""

import os

from palaver import connect

ELSEWHERE = os.environ.get("STORYTELLER_URL", "http://127.0.0.1:8642")
HEADERS = {"authorization": f"Bearer {os.environ.get('STORYTELLER_KEY', 'none')}"}
"""Sent only to that service and never shown."""

# A Palaver service describes itself. If it is unreachable now, it is discovered when it is called.
far_storyteller = connect(f"{ELSEWHERE}/storyteller", name="far_storyteller", is_chat=True, headers=HEADERS)

# Any service with OpenAI's Chat Completions API. It does not describe itself, so you have to.
model_storyteller = connect(
    f"{ELSEWHERE}/v1",
    name="model_storyteller",
    is_chat=True,
    dialect="chat-completions",
    model="storyteller",
    headers=HEADERS,
)
