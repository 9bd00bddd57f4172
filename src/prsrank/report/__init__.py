"""Reports: plain dicts to one self-contained web page, and to pictures."""
