"""The HTTP API: the same questions as the command line, the same documents as answers."""
