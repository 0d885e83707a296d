"""From a plan to results: slices are taken, cells called, scored and recorded."""
