"""Items from CLDR, read through Babel: dates, times, units, prices, numbers, names."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Mapping
from functools import cache, partial

from babel import Locale, dates, numbers, units

from models.phrasebook_recipe.items import LANGUAGES, Item, clean

#: A value's key, and how it is written in a language.
_Value = tuple[str, Callable[[str], str]]

CURRENCIES = ("USD", "EUR", "GBP", "JPY", "KRW", "CNY", "INR", "BRL", "RUB")
UNITS = """
    length-kilometer length-meter length-centimeter mass-kilogram mass-gram volume-liter
    temperature-celsius duration-year duration-month duration-week duration-day
    duration-hour duration-minute duration-second
""".split()
SPANS = ("year", "month", "week", "day", "hour", "minute", "second")
CURRENCY_NAMES = """
    USD EUR GBP JPY KRW CNY INR BRL RUB AED ARS AUD BDT CAD CHF CLP COP CZK DKK EGP
    HKD HUF IDR ILS IQD KES KWD MAD MXN MYR NGN NOK NZD PEN PHP PKR PLN QAR RON SAR
    SEK SGD THB TND TRY TWD UAH VND ZAR
""".split()
LANGUAGE_NAMES = """
    am ar az be bg bn bs ca cs cy da de el en es et eu fa fi fil fr ga gl gu ha he hi
    hr hu hy id is it ja ka kk km kn ko ky la lo lt lv mk ml mn mr ms my ne nl pa pl
    ps pt ro ru si sk sl so sq sr sv sw ta te th tr uk ur uz vi xh yi yo zh zu
""".split()
TERRITORIES = """
    AD AE AF AL AM AO AR AT AU AZ BA BB BD BE BF BG BH BI BJ BN BO BR BS BT BW BY BZ
    CA CF CH CI CL CM CN CO CR CU CV CY CZ DE DJ DK DO DZ EC EE EG ER ES ET FI FJ FR
    GA GB GE GH GM GN GQ GR GT GW GY HN HR HT HU ID IE IL IN IQ IR IS IT JM JO JP KE
    KG KH KM KP KR KW KZ LA LB LI LK LR LS LT LU LV LY MA MC MD ME MG MK ML MM MN MR
    MT MU MV MW MX MY MZ NA NE NG NI NL NO NP NZ OM PA PE PG PH PK PL PT PY QA RO RS
    RU RW SA SB SC SD SE SG SI SK SL SM SN SO SR SV SY SZ TD TG TH TJ TM TN TO TR TT
    TW TZ UA UG US UY UZ VN VU WS YE ZA ZM ZW
""".split()


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
    """ "in 3 days", "2 hours ago"."""
    unit, count = rng.choice(SPANS), rng.randrange(1, 100)
    sign = rng.choice((1, -1))

    def render(language: str) -> str:
        locale = Locale.parse(language)
        fields = locale._data["date_fields"][unit]
        patterns = fields["future" if sign > 0 else "past"]
        pattern = patterns.get(locale.plural_form(count)) or patterns["other"]
        return str(pattern).replace("{0}", str(count))

    return f"{unit} {sign * count}", render


def _draw_unit(rng: random.Random) -> _Value:
    """A measure: "5 kilometers", "1.5 kilograms"."""
    unit = rng.choice(UNITS)
    can_be_split = not unit.startswith("duration")
    is_split = can_be_split and rng.random() < 0.3
    count = rng.randrange(1, 1000) / 10 if is_split else rng.randrange(1, 500)
    return f"{unit} {count:g}", partial(_format_unit, unit, count)


@cache
def _unit_length(unit: str, language: str) -> str:
    """`long`, or `short` where Babel lacks the long pattern and would print the id."""
    is_missing = unit in units.format_unit(2, unit, "long", locale=language)
    return "short" if is_missing else "long"


def _format_unit(unit: str, count: float, language: str) -> str:
    length = _unit_length(unit, language)
    return units.format_unit(count, unit, length, locale=language)  # type: ignore[arg-type]


def _draw_price(rng: random.Random) -> _Value:
    """An amount of money up to 10,000, most of them below 100."""
    currency = rng.choice(CURRENCIES)
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


DRAWS: Mapping[str, Callable[[random.Random], _Value]] = {
    "dates": _draw_date,
    "times": _draw_time,
    "relative times": _draw_relative_time,
    "units": _draw_unit,
    "prices": _draw_price,
    "numbers": _draw_number,
    "percents": _draw_percent,
}
SLOTS: Mapping[str, Callable[[random.Random], _Value]] = {
    "date": _draw_long_date,
    "time": _draw_clock,
    "price": _draw_price,
    "number": _draw_label,
}


def draw(category: str, rng: random.Random) -> Item:
    """A random value of a category of `DRAWS`."""
    return _make_item(category, *DRAWS[category](rng))


def fill_slot(slot: str, rng: random.Random) -> Mapping[str, str]:
    """A random value for a slot of `SLOTS`, in each language."""
    item = _make_item(slot, *SLOTS[slot](rng))
    return {language: item.text(language) for language in LANGUAGES}


def _make_item(category: str, key: str | None, render: Callable[[str], str]) -> Item:
    return Item(category, key, lambda language: (clean(render(language)),))


def list_names() -> dict[str, list[Item]]:
    """The finite categories: every weekday, month, country, language and currency."""
    renderers: dict[str, list[Callable[[str], str]]] = {
        "weekdays": [partial(_weekday, day) for day in range(7)],
        "months": [partial(_month, month) for month in range(1, 13)],
        "countries": [partial(_name, "territories", code) for code in TERRITORIES],
        "languages": [partial(_name, "languages", code) for code in LANGUAGE_NAMES],
        "currencies": [partial(_name, "currencies", code) for code in CURRENCY_NAMES],
    }
    return {
        category: [_make_item(category, None, render) for render in renders]
        for category, renders in renderers.items()
    }


def _weekday(day: int, language: str) -> str:
    return str(Locale.parse(language).days["format"]["wide"][day])


def _month(month: int, language: str) -> str:
    """The stand-alone name; where Babel resolves its alias wrongly it answers in
    Chinese, and there the name inside a date is the same word."""
    locale = Locale.parse(language)
    alone = str(locale.months["stand-alone"]["wide"][month])
    is_wrong = (
        language != "zh"
        and alone == Locale.parse("zh").months["stand-alone"]["wide"][month]
    )
    return str(locale.months["format"]["wide"][month]) if is_wrong else alone


def _name(kind: str, code: str, language: str) -> str:
    return str(getattr(Locale.parse(language), kind)[code])
