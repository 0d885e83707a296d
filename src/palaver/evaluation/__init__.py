"""Evaluation: a test set over variants, scored, and the question answered: is it worse?"""
