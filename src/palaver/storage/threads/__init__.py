"""Threads: conversations with branches, kept and found."""
