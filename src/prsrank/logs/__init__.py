"""Click logs, whatever their form."""
