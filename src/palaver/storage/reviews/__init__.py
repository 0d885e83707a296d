"""Human reviews.

tables      the tables of reviews
repository  reviews
items       items of a review, their leases and answers

Questions and answers are opaque here: palaver.evaluation interprets them.
"""
