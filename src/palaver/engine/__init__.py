"""A run from call to last event: started, streamed, followed, cancelled, limited, kept.

    engine      starts runs, knows those that are alive, ends them all at shutdown
    run         one run: its task, its log, its readers
    failures    how a run that ended badly says so
    bounds      how far a run may go
    store       the small promise of whoever keeps runs

What a workflow is and gives stands in workflows/; what its events mean, in core/.
"""
