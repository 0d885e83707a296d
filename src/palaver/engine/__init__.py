"""Execution of workflows: start, stream, record, follow, cancel and limit runs.

Modules:

    engine           starts runs, tracks those that are active, drains them at shutdown
    run              one run: its task, event log and readers
    failures         terminal events for failed runs
    recorder         the interface through which runs are recorded, and the recorder for databases
    run_reader       reads, follows and cancels runs of any process
    unread_runs      cancels runs that no client reads
    background_runs  background runs, started by whichever process has capacity
    poller           a polling loop that can be woken early
    heartbeat        reports this process as alive, and notices dead ones
    crash_recovery   ends or requeues the runs of dead processes
    retention_task   deletes old data periodically
    tracing          spans of runs and of the steps that frameworks report
    files            resolves the files that messages carry (`ctx.fetch`)

Workflows are defined in palaver.workflows, their events in palaver.core.
"""
