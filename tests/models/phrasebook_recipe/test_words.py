"""The words by which the gateway identifies the language of short texts."""

from models.phrasebook_recipe import words


def test_the_words_that_ship_are_those_of_the_recipe_and_small():
    written = words.WORDS.read_bytes()
    assert written.decode() == words.write_words(), (
        "run `python -m models.phrasebook_recipe words`"
    )
    assert len(written) < 300_000
