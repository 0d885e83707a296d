"""From an evaluation request to a fixed plan.

    column_map    which column is messages, inputs, script or expected answer
    plan          the plan, the numbers of its cells, and their slices
    planner       validates a request and makes the plan
    request       the request as a client sends it
    testset       the revision and rows of a request

A plan is fixed when an evaluation begins, and stored with it.
"""
