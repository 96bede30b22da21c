"""Units of measurement by all of their usual spellings, and the magnitudes of numbers.

Symbols are compared with their case, since mg and Mg, or MB and Mb, are different units. A spelling that is not listed
in its own case is looked up in lower case: "5 KG" are kilograms.
"""

_PREFIXES = "p/pico n/nano µ/micro m/milli c/centi d/deci h/hecto k/kilo M/mega G/giga T/tera P/peta".split()
_BINARY_PREFIXES = "Ki/kibi Mi/mebi Gi/gibi Ti/tebi Pi/pebi".split()
# symbol: words. Each has all prefixes.
_BASES = {
    "m": "meter metre",
    "g": "gram gramme",
    "l": "liter litre",
    "s": "second",
    "W": "watt",
    "V": "volt",
    "A": "ampere amp",
    "J": "joule",
    "N": "newton",
    "Pa": "pascal",
    "Hz": "hertz",
    "Ω": "ohm",
    "eV": "electronvolt",
    "cal": "calorie",
    "mol": "mole",
    "Wh": "watt-hour",
    "Ah": "ampere-hour",
    "bps": "",
}
_DATA = {"B": "byte", "b": "bit"}
# Each line is one unit: its own name, then other spellings. They win over symbols that are made of a prefix and a base.
_OTHERS = """
    s sec secs
    ms msec msecs
    µs us μs usec usecs
    ns nsec nsecs
    min mins minute minutes
    h hr hrs hour hours
    day days
    week weeks wk wks
    month months
    year years yr yrs
    decade decades
    century centuries
    am
    pm
    l L
    ml mL
    dl dL
    µg mcg
    t tonne tonnes
    ton tons
    lb lbs pound pounds
    oz ounce ounces
    stone
    grain grains
    carat carats
    mile miles mi
    foot feet ft
    inch inches
    yard yards yd
    league leagues
    acre acres
    hectare hectares ha
    gallon gallons gal
    pint pints
    quart quarts
    cup cups
    teaspoon teaspoons tsp
    tablespoon tablespoons tbsp
    drop drops
    tablet tablets
    IU
    cc
    knot knots
    mph
    kmh km/h kmph kph
    rpm
    fps
    dpi
    ppi
    px pixel pixels
    em
    rem
    pt
    dB
    psi
    bar bars
    atm
    hp horsepower
    ° degree degrees deg
    °C celsius centigrade
    °F fahrenheit
    K kelvin
    radian radians rad
    % percent pct
    ppm
    mmHg
    dollar dollars $ bucks
    USD US$
    € euro euros EUR eur
    £ GBP
    ¥ yen JPY
    yuan CNY RMB
    ₹ INR
    rupee rupees rs
    ruble rubles ₽ RUB
    CHF
    CAD
    AUD
    cent cents
    dozen dozens
    kB KB kb
    MB mb
    GB gb
    TB tb
    PB pb
    kWh KWH kwh
    mAh MAH mah
""".strip().splitlines()

# What a number is multiplied by when one of these follows, as a power of ten.
MAGNITUDES = {
    "k": 3, "hundred": 2, "thousand": 3, "lakh": 5, "lakhs": 5, "lac": 5, "million": 6, "millions": 6, "mn": 6,
    "crore": 7, "crores": 7, "billion": 9, "billions": 9, "bn": 9, "trillion": 12,
}  # fmt: skip
ATTACHED = frozenset(["k", "us", "em", "pt", "T", "B", "b", "K"])  # also words or letters, if a space precedes them


def _list_units() -> dict[str, str]:
    units: dict[str, str] = {}
    for bases, prefixes in ((_BASES, _PREFIXES), (_DATA, [*_PREFIXES[-5:], *_BINARY_PREFIXES])):
        for symbol, words in bases.items():
            for short, long in [("", ""), *(prefix.split("/") for prefix in prefixes)]:
                name = short + symbol
                units[name] = name
                for word in words.split():
                    units[long + word] = units[f"{long}{word}s"] = name
    for line in _OTHERS:
        name, *others = line.split()
        name = units.get(name, name)
        units.update(dict.fromkeys([name, *others], name))
    return units


UNITS = _list_units()  # spelling → unit


def find_unit(text: str, *, attached: bool) -> str | None:
    """Return the unit that a text after a number names, or None. A space precedes it unless it is `attached`."""
    if text in ATTACHED and not attached:
        return None
    if text in UNITS:
        return UNITS[text]
    lower = text.lower()
    if lower in UNITS and (len(lower) > 1 or attached) and (attached or lower not in ATTACHED):
        return UNITS[lower]
    parts = text.split("/")
    if len(parts) == 2 and parts[0] and (units := [find_unit(part, attached=True) for part in parts]) and all(units):
        return "/".join(map(str, units))
    power = text[-1:]
    if power in "23²³" and text[:-1] in UNITS:
        return UNITS[text[:-1]] + power.translate({0xB2: "2", 0xB3: "3"})
    return None


def is_unmistakable(text: str) -> bool:
    """Return whether a text names a unit even where no number precedes it: a word, or a symbol that is not a word."""
    if text not in UNITS:
        return False
    is_symbol = len(text) == 2 and not any(letter in "aeiouAEIOU" for letter in text) and text != "pt"
    return is_symbol or (len(text) > 2 and text.islower())
