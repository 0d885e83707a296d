"""Agenta's evaluators and their settings, as our own."""
