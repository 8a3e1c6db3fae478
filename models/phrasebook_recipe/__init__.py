"""The recipe of `models/phrasebook`: an M2M100 trained on CLDR values and a phrasebook."""
