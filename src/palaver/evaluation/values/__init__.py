"""JSON as evaluators look at it: where something is in it, and when two of it are equal."""
