"""The checks behind the quality gate, by what they compare. Each is pure and returns findings."""
