"""The recipe of `models/phrasebook`: CLDR values and a phrasebook in, an M2M100 out.

Run it with `python -m models.phrasebook_recipe`.
"""
