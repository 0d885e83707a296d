"""`palaver eval`: run a test set against a workflow and score the answers.

Modules:

    command    the command and its options
    runner     running one evaluation with progress, and loading its outcome
    report     printing of the outcome
"""
