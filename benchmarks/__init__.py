"""The figures that README shows, in one command: `make bench`, or `python -m benchmarks` from the project's folder.

parts/      the measurements, one module each, all with one function: measure(context) -> figures
figures     a measured value, its goal, and the table of all of them
stand       what every part is given: how long to take, a folder to write to
machine     cores, memory, file limits: what the operating system knows
servers     Palaver and the bare application, each in a process of its own
raw         the bare application: ready bytes, the most that a Python application can do on this server
payloads/   values with conversations in them, in every dialect and place, and decoys
traces/     the load of the part about traces, and how each of its figures is measured
peers/      other people's servers, in environments of their own
workflows   what Palaver serves while it is measured
load        requests from outside, by a small C program (generator.c), or without a compiler by generator.py
"""
