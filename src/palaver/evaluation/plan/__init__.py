"""From an evaluation request to a fixed plan.

    column_mapping    which column is messages, inputs, script or expected answer
    plan              the plan, and numbers of its cells
    planner           validates a request and makes the plan
    request           what a request may ask for
    slices            splits the cells into slices for workers
    testset           the revision and rows of a request

A plan is fixed when an evaluation begins, and stored with it.
"""
