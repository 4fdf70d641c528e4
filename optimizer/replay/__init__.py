"""Replay: real and made spot traces, traffic, and every policy side by side."""
