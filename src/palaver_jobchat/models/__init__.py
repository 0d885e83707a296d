"""Models: who answers a prompt. Each provider is one file with one `ask`; what they all say is base.py."""
