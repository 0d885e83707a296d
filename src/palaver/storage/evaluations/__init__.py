"""Evaluations, their slices and results, kept and found."""
