"""Record what TensorFlow's SqlDataset gives: `python record_sql.py sql.json`, with TensorFlow 2.

The file holds the statements that make a database, and for each query and its types the elements, or an
error's class in their place. Uses nothing of this project.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sqlite3
import sys
import tempfile
from typing import Any

import numpy as np

tf: Any = importlib.import_module("tensorflow")

STATEMENTS = [
    "CREATE TABLE people (name TEXT, age INTEGER, weight REAL, photo BLOB, note)",
    "INSERT INTO people VALUES ('Ada', 36, 55.5, x'00ff10', 7)",
    "INSERT INTO people VALUES ('Bo', -3, 1e20, NULL, '12 apples')",
    "INSERT INTO people VALUES (NULL, NULL, NULL, x'', 3.99)",
    "INSERT INTO people VALUES ('Çelik', 5000000000, 0.1, 'text', NULL)",
    "INSERT INTO people VALUES ('', 300, -2.0, 17, '-0.25e1x')",
]
QUERIES = [
    ("SELECT name, age, weight FROM people ORDER BY rowid", ["string", "int64", "float64"]),
    (
        "SELECT age, age, age, age, age, age FROM people",
        ["int8", "int16", "int32", "uint8", "uint16", "bool"],
    ),
    ("SELECT age, weight, photo, note FROM people", ["string"] * 4),
    ("SELECT note, note, note, note FROM people", ["int32", "int64", "float64", "bool"]),
    ("SELECT weight, weight, name FROM people", ["int64", "int32", "int64"]),
    ("SELECT count(*), max(age) FROM people WHERE age > 0", ["int64", "int64"]),
    ("SELECT name FROM people WHERE age > 10000000000", ["string"]),
    ("SELECT name, age FROM people", ["string"]),
    ("SELECT nothing FROM people", ["string"]),
    ("SELEKT", ["string"]),
]


def shown(value: Any) -> Any:
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        return ["string", base64.b64encode(bytes(array.item())).decode()]
    return [array.dtype.name, array.item()]


def main() -> None:
    path = os.path.join(tempfile.mkdtemp(), "people.db")
    with sqlite3.connect(path) as database:
        for statement in STATEMENTS:
            database.execute(statement)
    cases = []
    for query, types in QUERIES:
        elements: list[Any] = []
        try:
            made = tf.data.experimental.SqlDataset("sqlite", path, query, tuple(map(tf.as_dtype, types)))
            elements.extend([shown(each) for each in element] for element in made)
        except tf.errors.OpError as error:
            elements.append({"error": type(error).__name__})
            print(query, error, file=sys.stderr)
        cases.append({"query": query, "types": types, "elements": elements})
    with open(sys.argv[1], "w") as file:
        json.dump({"statements": STATEMENTS, "cases": cases}, file, indent=1)
        file.write("\n")


if __name__ == "__main__":
    main()
