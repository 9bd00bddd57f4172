"""Losses over weighted pairs, with their gradients."""
