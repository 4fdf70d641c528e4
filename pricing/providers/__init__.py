"""One module per price source; each ends with its ``PROVIDER``."""
