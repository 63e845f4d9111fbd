"""Reads every CSV file of the data folder, and writes the mean of each column into the output folder.

It needs Python alone: files come and go by store.py, with the token that every task gets.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import store


def means(folder: Path) -> dict[str, float]:
    """By the name of the column. Columns that are not numbers are left out."""
    columns: dict[str, list[float]] = {}
    for path in sorted(folder.rglob("*.csv")):
        with path.open(newline="") as file:
            for row in csv.DictReader(file):
                for name, value in row.items():
                    try:
                        columns.setdefault(name, []).append(float(value))
                    except ValueError:
                        pass
    return {name: round(sum(values) / len(values), 4) for name, values in columns.items() if values}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True, help="a folder of the store")
    parser.add_argument("--output", required=True, help="a folder of the store")
    asked = parser.parse_args()
    store.get(asked.data, "data")
    result = means(Path("data"))
    Path("means.json").write_text(json.dumps(result, indent=2) + "\n")
    store.put("means.json", f"{asked.output}/means.json")
    print(f"saved the means of {len(result)} columns as {asked.output}/means.json: {result}", flush=True)


if __name__ == "__main__":
    main()
