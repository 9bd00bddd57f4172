"""Ranking quality, and whether a difference of it is significant."""
