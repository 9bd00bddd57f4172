"""Models in the formats that search engines and other libraries load, one format a file."""
