"""The rules of online evaluation, their cases and scores, kept and found."""
