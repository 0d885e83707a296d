"""Somebody else is asked: what a judge or a person is told of a case, and what becomes of the answer."""
