"""The recipe of `models/phrasebook`: an M2M100 of CLDR values and a phrasebook."""
