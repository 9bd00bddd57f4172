"""From the files of a log to events, lists with features, and pairs."""
