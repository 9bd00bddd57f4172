"""Relevance from clicks: a prior from features, and each doc's posterior given its own clicks."""
