"""Rankers: linear, LambdaMART and their rivals."""
