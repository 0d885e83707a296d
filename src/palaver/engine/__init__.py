"""A run from call to last event: started, streamed, followed, cancelled, limited, kept.

    engine      starts runs, knows those that are alive, ends them all at shutdown
    run         one run: its task, its log, its readers
    store       the small promise of whoever keeps runs
"""
