"""Training items: one meaning each, in all 14 languages. Dates, times, units, prices, numbers
and names are from CLDR, through Babel.
"""

import datetime as dt
import hashlib
import math
import random
import re
import unicodedata
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial, reduce
from operator import getitem
from pathlib import Path
from typing import Any

import yaml
from babel import Locale, dates, numbers, units

LANGUAGES = tuple("en ko zh es fr ru id ja vi de it hi ar pt".split())

_SPACES = re.compile(r"[\u00a0\u2009\u202f]")
_INVISIBLE = re.compile(r"[\u061c\u200e\u200f]")
_HELD_OUT_SHARE = 10
#: A value's key, and the function that writes it in a language.
_Value = tuple[str, Callable[[str], str]]

_TEXT = Path(__file__).with_name("cldr.yaml").read_text("utf-8")
#: The codes of CLDR's names. Their order determines the items drawn.
_CODES = {name: codes.split() for name, codes in yaml.safe_load(_TEXT).items()}


@dataclass(frozen=True)
class Item:
    """One meaning. The first of a language's `wordings` is the translation; the others are
    accepted inputs. Items without a `key` are always used for training."""

    category: str
    key: str | None
    wordings: Callable[[str], tuple[str, ...]]
    #: The languages in which its text has another meaning, too.
    ambiguous_in: frozenset[str] = frozenset()

    def text(self, language: str) -> str:
        return self.wordings(language)[0]

    @property
    def is_held_out(self) -> bool:
        """Whether this item is excluded from training, as one key in ten is."""
        if self.key is None:
            return False
        digest = hashlib.sha256(f"{self.category}:{self.key}".encode()).digest()
        return digest[0] % _HELD_OUT_SHARE == 0


def clean(text: str) -> str:
    """Normalize to NFC, ordinary spaces and no direction marks: CLDR is inconsistent."""
    text = _INVISIBLE.sub("", _SPACES.sub(" ", text))
    return unicodedata.normalize("NFC", text).strip()


def _draw_date(rng: random.Random) -> _Value:
    """A day between 1950 and 2059, in one of four formats."""
    day = dt.date(1950, 1, 1) + dt.timedelta(days=rng.randrange(110 * 365))
    form = rng.choice(("full", "long", "long", "MMMMd", "yMMMM"))
    key = day.strftime({"MMMMd": "%m-%d", "yMMMM": "%Y-%m"}.get(form, "%Y-%m-%d"))
    return f"{form} {key}", partial(_format_date, day, form)


def _format_date(day: dt.date, form: str, language: str) -> str:
    if form in ("full", "long"):
        return dates.format_date(day, form, locale=language)
    return dates.format_skeleton(form, day, locale=language)


def _draw_time(rng: random.Random) -> _Value:
    """A time of day to the minute, as the language's short format writes it."""
    time = dt.time(rng.randrange(24), rng.randrange(60))
    return f"{time:%H:%M}", lambda lang: dates.format_time(time, "short", locale=lang)


def _draw_relative_time(rng: random.Random) -> _Value:
    """A span of time, such as "in 3 days" or "2 hours ago"."""
    unit = rng.choice(_CODES["spans"])
    count = rng.randrange(1, 100)
    count *= rng.choice((1, -1))
    seconds = count * dict(dates.TIMEDELTA_UNITS)[unit]
    return f"{unit} {count}", lambda lang: dates.format_timedelta(
        seconds, unit, threshold=math.inf, add_direction=True, locale=lang
    )


def _draw_unit(rng: random.Random) -> _Value:
    """A measure: "5 kilometers", "1.5 kilograms"."""
    unit = rng.choice(_CODES["units"])
    can_be_split = not unit.startswith("duration")
    is_split = can_be_split and rng.random() < 0.3
    count = rng.randrange(1, 1000) / 10 if is_split else rng.randrange(1, 500)
    return f"{unit} {count:g}", partial(_format_unit, unit, count)


@cache
def _unit_length(unit: str, language: str) -> str:
    """Return `long`, or `short` if Babel lacks the long pattern and would print the id."""
    is_missing = unit in units.format_unit(2, unit, "long", locale=language)
    return "short" if is_missing else "long"


def _format_unit(unit: str, count: float, language: str) -> str:
    length = _unit_length(unit, language)
    return units.format_unit(count, unit, length, locale=language)  # type: ignore[arg-type]


def _draw_price(rng: random.Random) -> _Value:
    """An amount of money up to 10,000, most of them below 100."""
    currency = rng.choice(_CODES["currencies of prices"])
    cents = rng.randrange(50, int(10 ** rng.uniform(2.5, 6)))
    is_whole = currency in ("JPY", "KRW") or rng.random() < 0.3
    amount = round(cents / 100) if is_whole else cents / 100
    return f"{currency} {amount}", lambda language: numbers.format_currency(
        max(amount, 1), currency, locale=language
    )


def _draw_number(rng: random.Random) -> _Value:
    """A number of up to seven digits, some with decimals."""
    digits = rng.randrange(1, 8)
    value = rng.randrange(10 ** (digits - 1), 10**digits)
    number = value / 100 if rng.random() < 0.3 else value
    return f"{number}", lambda lang: numbers.format_decimal(number, locale=lang)


def _draw_percent(rng: random.Random) -> _Value:
    """A whole percentage."""
    share = rng.randrange(1, 201) / 100
    return f"{share}", lambda lang: numbers.format_percent(share, locale=lang)


def _draw_long_date(rng: random.Random) -> _Value:
    day = dt.date(2020, 1, 1) + dt.timedelta(days=rng.randrange(16 * 365))
    return f"{day}", partial(_format_date, day, "long")


def _draw_clock(rng: random.Random) -> _Value:
    hour = rng.choice((0, *range(2, 24)))  # 01:xx would be singular in es, it and pt
    clock = f"{hour:02}:{rng.choice((0, 5, 10, 15, 20, 30, 40, 45, 50, rng.randrange(60))):02}"
    return clock, lambda _: clock


def _draw_label(rng: random.Random) -> _Value:
    label = str(rng.randrange(2, 10 ** rng.randrange(1, 4) + 3))
    return label, lambda _: label


_Draw = Callable[[random.Random], _Value]
#: The function that draws a value, by category.
DRAWS: Mapping[str, _Draw] = {
    "dates": _draw_date,
    "times": _draw_time,
    "relative times": _draw_relative_time,
    "units": _draw_unit,
    "prices": _draw_price,
    "numbers": _draw_number,
    "percents": _draw_percent,
}
SLOTS: Mapping[str, _Draw] = {
    "date": _draw_long_date,
    "time": _draw_clock,
    "price": _draw_price,
    "number": _draw_label,
}


def draw(category: str, rng: random.Random) -> Item:
    """Draw a random value of a category in `DRAWS`."""
    return _make_item(category, *DRAWS[category](rng))


def fill_slot(slot: str, rng: random.Random) -> Mapping[str, str]:
    """Draw a random value for a slot in `SLOTS`, in each language."""
    item = _make_item(slot, *SLOTS[slot](rng))
    return {language: item.text(language) for language in LANGUAGES}


def _make_item(category: str, key: str | None, render: Callable[[str], str]) -> Item:
    return Item(category, key, lambda language: (clean(render(language)),))


def list_names() -> dict[str, list[Item]]:
    """The finite categories: every weekday, month, country, language and currency."""
    places: dict[str, list[tuple[Any, ...]]] = {
        "weekdays": [("days", "format", "wide", day) for day in range(7)],
        "months": [("months", "format", "wide", month) for month in range(1, 13)],
    }
    for category in ("countries", "languages", "currencies"):
        kind = "territories" if category == "countries" else category
        places[category] = [(kind, code) for code in _CODES[kind]]
    return {
        category: [_make_item(category, None, partial(_name, place)) for place in found]
        for category, found in places.items()
    }


def _name(place: tuple[Any, ...], language: str) -> str:
    """Return the name at this place in Babel's data. Months outside a date have different names
    only in Russian and Vietnamese; for other languages, Babel's are mistakenly Chinese."""
    kind, *keys = place
    if kind == "months" and language in ("ru", "vi"):
        keys[0] = "stand-alone"
    return str(reduce(getitem, keys, getattr(Locale.parse(language), kind)))
