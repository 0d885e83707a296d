"""Test sets.

    tables      the tables of test sets
    repository  test sets and their revisions
    rows        row contents and metadata
    row_chunks  row lists in chunks that revisions share
    imports     imports in progress, and the removal of dead ones

What rows mean is defined in palaver.testsets.
"""
