"""A run from call to last event: started, streamed, followed, cancelled, limited, kept.

    engine      starts runs, knows those that are alive, ends them all at shutdown
    run         one run: its task, its log, its readers
    failures    how a run that ended badly says so
    bounds      how far a run may go
    store       the small promise of whoever keeps runs

    recorder      keeps them in a database
    records       reads, follows and cancels those of every process
    backlog       begins those that wait in the background
    processes     says that this process is alive, ends the runs of those that died
    orphans       ends those that nobody reads any more
    housekeeping  lets go of what is old

What a workflow is and gives stands in workflows/; what its events mean, in core/.
"""
