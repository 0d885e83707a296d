"""The benchmarks, in one command: `make bench`, or `python -m benchmarks` in the repository.

parts/      the measurements, one module each, all with one function: measure(context) -> figures
figures     measured values with their goals, and the table of them
report      the last measurement: docs/concepts/benchmarks.json and docs/concepts/benchmarks.md
context     the context of a part: how thoroughly to measure, and a folder to write to
machine     cores, memory, CPU time and file limits, from the operating system
servers     run Palaver and the bare application, each in its own process
bare_app    the bare application: sends prepared bytes, the upper limit of a Python application on this server
workflows   the workflows that Palaver serves while it is measured
load        requests from another process: a small C program (generator.c), or generator.py without a compiler
rounds      rounds of load on several servers in turn
browser     Chromium, and the tasks of a page's main thread
payloads/   values that contain conversations, in every dialect and envelope, and decoys
traces/     the load of the part about traces, and the measurement of each of its figures
peers/      other projects' servers, in their own environments
"""
