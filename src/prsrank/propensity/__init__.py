"""Estimators of the observation propensity of each position."""
