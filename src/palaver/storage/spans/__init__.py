"""Spans, kept and found."""
