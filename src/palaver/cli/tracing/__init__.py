"""The commands of `palaver trace`."""
