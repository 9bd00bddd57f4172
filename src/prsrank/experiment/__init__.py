"""The paper's experiments: a spec (TOML) becomes jobs, jobs a journal, the journal a table."""
