"""Click models and the production ranker."""
