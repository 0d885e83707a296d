"""Test sets: versioned tables of inputs and expected answers.

    columns             columns and their kinds, counted across all rows
    commits             commit rows, a delta or an older revision
    delta               changes between a revision and the next
    diff                compare two revisions
    export              write a revision as a file
    files               file formats: JSON Lines, JSON, CSV, Parquet
    from_traces         rows and scripts made from recorded calls
    importer            import a file: append, replace or upsert
    limits              size limits of sets, rows and files
    revision_builder    chunks and columns of a new revision
    row_pages           rows of a revision, page by page, and filters for them
    rows                row ids, hashes and canonical JSON
    scripts             conversation scripts and their expectations

Tables and queries of test sets are in palaver.storage.testsets.
"""
