"""Clients' own terms: glossaries and the dictionaries in them, stored in the database. How
terms get into a translation is in `text/terms.py`.
"""
