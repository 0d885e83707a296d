"""Adaptors: how they are named, and how what they can do is described to a model."""
