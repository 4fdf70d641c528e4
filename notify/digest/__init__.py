"""The weekly digest: what the market did in one ISO week, and what that means for saved plans.

``read`` takes the week out of the database, ``statistics`` and ``figure`` reduce it, ``build``
puts the digest together, ``render_*`` write it for each reader.
"""
