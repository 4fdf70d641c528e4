"""Vocabulary that every other package shares: money, units, time, errors, offers.

Imports nothing of ours.
"""
