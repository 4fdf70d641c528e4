"""Catalogues that other tools publish, as a way in for people who already keep one."""
