"""Live traffic, scored by rules."""
