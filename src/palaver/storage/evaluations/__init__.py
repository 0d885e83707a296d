"""Evaluations, human reviews and live evaluators.

    tables              the tables of all of them
    repository          evaluations
    slices              batches of cells that processes claim
    results             results and scores of cells
    reviews             human reviews, their items and answers
    live_evaluators     live evaluators, which the API and the tables call rules; their cases and scores

Plans, questions and bodies are opaque here: palaver.evaluation interprets them.
"""
