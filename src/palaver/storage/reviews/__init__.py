"""Reviews, their items and answers, kept and found."""
