"""People look at results: what they are given, and what they said."""
