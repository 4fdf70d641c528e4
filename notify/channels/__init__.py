"""Channels: from one message to the form of each service, as pure functions within its limits.

Texts come partly from providers. Every renderer therefore makes them harmless for its service:
no markup, no mentions, no links but our own.
"""
