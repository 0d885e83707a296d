"""The parts of `palaver eval`."""
