"""Run the cells of a plan and store their results.

    call             calls of a workflow: rate limit, timeout, retries, cost
    cell             one cell: row, call and scores
    local            a whole evaluation in this process
    manual_case      manually written cases and answers, without a run
    progress         speed and remaining time
    rate_limit       a rate limit shared by all processes
    result_writer    results as they are stored, written in batches
    script           plays conversation scripts
    slice_runner     runs the cells of a slice
    worker           claims waiting slices

All state is in the database: any process may continue the work of another.
"""
