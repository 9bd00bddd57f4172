"""Estimates from held-out clicks, their diagnostics, and how far they can be trusted."""
