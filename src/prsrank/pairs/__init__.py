"""Weighted pairs of docs: from clicks or labels to what a pairwise ranker learns from."""
