"""The statistics that results are read with: intervals and tests, over plain arrays. 95 % throughout."""
