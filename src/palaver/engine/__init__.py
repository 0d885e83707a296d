"""Execution of workflows: start, stream, record, follow, cancel and limit runs.

engine          starts runs, tracks those that are active, drains them at shutdown
run             one run: its task, event log and readers
limits          time, event and byte limits of a run
failures        terminal events for failed runs
ids             random ids that sort by time
store           the interface through which runs are recorded, and the in-memory store
recorder        records runs in a database
run_reader      reads, follows and cancels runs of any process
queue           background runs, started by whichever process has capacity
poller          a polling loop that can be woken early
heartbeat       reports this process as alive, ends runs of dead processes
abandoned_runs  cancels runs without readers
retention       deletes old data periodically
tracing         spans of runs and of the steps that frameworks report
files           resolves the files that messages carry (`ctx.fetch`)

What a workflow is, is defined in palaver.workflows; what its events mean, in palaver.core.
"""
