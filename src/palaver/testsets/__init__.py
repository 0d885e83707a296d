"""Test sets: what really came in and out, kept as cases."""
