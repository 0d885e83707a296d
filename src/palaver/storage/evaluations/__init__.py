"""Evaluations.

tables      the tables of evaluations
repository  evaluations
slices      batches of cells that processes claim
results     results and scores of cells

Plans and bodies are opaque here: palaver.evaluation interprets them.
"""
