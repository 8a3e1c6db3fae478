"""Clients' own terms: glossaries and their dictionaries, stored in the database. How terms are
applied to a translation is in `text/terms.py`.
"""
