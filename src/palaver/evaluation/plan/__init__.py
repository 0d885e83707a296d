"""From what was asked for to a plan that is fixed: which rows, which columns, which cells."""
