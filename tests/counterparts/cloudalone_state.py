"""Prints, as JSON, the first-boot data that cloudalone keeps for a server: reads {"db", "name"} from standard input."""

import json
import sqlite3
import sys

asked = json.load(sys.stdin)
row = sqlite3.connect(asked["db"]).execute("select user_data from server where name = ?", [asked["name"]]).fetchone()
print(json.dumps(row and row[0]))
