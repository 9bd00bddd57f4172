"""Data sets: reading, converting, making up."""
