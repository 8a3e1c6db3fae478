"""The recipe of `models/phrasebook`: trains an M2M100 on CLDR values and a phrasebook.
Run it with `python -m models.phrasebook_recipe`.
"""
