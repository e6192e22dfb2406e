"""Reads the result of each query of standard input, one a line, with a driver: read_all.py MODULE.

The server's address is in DATABASE_URL.  Prints the number of rows of each result, or the error.
"""

import asyncio
import os
import sys
import warnings

URL = os.environ["DATABASE_URL"]


def cursor_of(module):
    connection = __import__(module).connect(URL)
    connection.autocommit = True
    cursor = connection.cursor()

    def count(query):
        cursor.execute(query)
        return len(cursor.fetchall())

    return count


def with_pandas():
    import pandas
    import psycopg2

    # pandas warns of connections that are not of SQLAlchemy
    warnings.simplefilter("ignore")
    connection = psycopg2.connect(URL)
    connection.autocommit = True
    return lambda query: len(pandas.read_sql_query(query, connection))


def with_asyncpg():
    import asyncpg

    loop = asyncio.new_event_loop()
    connection = loop.run_until_complete(asyncpg.connect(URL))
    return lambda query: len(loop.run_until_complete(connection.fetch(query)))


module = sys.argv[1]
count = with_pandas() if module == "pandas" else with_asyncpg() if module == "asyncpg" else cursor_of(module)
for query in sys.stdin.read().splitlines():
    try:
        print(count(query))
    except Exception as error:
        print(f"{query}: {type(error).__name__}: {error}")
