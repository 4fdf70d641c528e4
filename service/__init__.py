"""The ways in: command line, worker, and ``up``, which composes them."""
