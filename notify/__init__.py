"""Who to tell: alert rules, deliveries, channels and digests."""
