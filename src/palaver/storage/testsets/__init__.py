"""Test sets, their revisions and rows, kept and found."""
