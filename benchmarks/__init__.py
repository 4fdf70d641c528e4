"""Measurements: ratios within one run, never asserted."""
