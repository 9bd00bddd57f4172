"""The rankers with a scoring net. What trains them needs PyTorch, which these alone import."""
