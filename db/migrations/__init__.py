"""Schema history, one file a revision."""
