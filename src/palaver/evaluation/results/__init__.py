"""From results to figures: intervals, comparison, slices, gates, reports."""
