"""Keeps an index of the words of all posts in a file of SQLite, each change once (doc/use/changes.md): DATABASE_URL=… search.py FILE"""

import json
import os
import signal
import sqlite3
import struct
import sys
import time
from contextlib import closing

import psycopg

POSTS = "app.bsky.feed.post"
OPTIONS = f"targets 'atproto', collections '{POSTS}', kinds 'commit', positions 'changes'"
COPY = f"SELECT aturi(did, collection, rkey), cid, jsonb_build_object('text', value->'text') FROM atproto.record WHERE collection = '{POSTS}'"
SLOT = "SELECT wal_status, active_pid, confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = 'search'"
TABLES = """CREATE TABLE IF NOT EXISTS position (lsn INTEGER, system TEXT, timeline INTEGER);
CREATE TABLE IF NOT EXISTS post (id INTEGER PRIMARY KEY, uri TEXT UNIQUE, cid TEXT);
CREATE VIRTUAL TABLE IF NOT EXISTS word USING fts5 (text);"""


class Lost(Exception):
    """The server does not have all changes after the position: the index is made anew."""


def number(lsn):
    high, low = lsn.split("/")
    return int(high, 16) << 32 | int(low, 16)


def ask(stream, command):
    """The rows that answer a command of the replication protocol."""
    result = stream.exec_(command.encode())
    if result.error_message:
        raise psycopg.OperationalError(result.error_message.decode())
    return [[(result.get_value(r, c) or b"").decode() for c in range(result.nfields)] for r in range(result.ntuples)]


def put(store, uri, cid, record):
    text = record.get("text") if isinstance(record, dict) else None  # an account may write anything into its record
    [(post,)] = store.execute("INSERT INTO post (uri, cid) VALUES (?, ?) ON CONFLICT (uri) DO UPDATE SET cid = excluded.cid RETURNING id", (uri, cid)).fetchall()
    store.execute("INSERT OR REPLACE INTO word (rowid, text) VALUES (?, ?)", (post, text if isinstance(text, str) else None))


def remove(store, uri):
    for post in store.execute("DELETE FROM post WHERE uri = ? RETURNING id", (uri,)).fetchall():
        store.execute("DELETE FROM word WHERE rowid = ?", post)


def begin(store, *position):
    store.execute("BEGIN IMMEDIATE")
    if store.execute("SELECT * FROM position").fetchall() != list(position):
        sys.exit("another process keeps this index")


def build(store, sql, stream, server, *position):
    """Copies the table as it is where a new slot begins.  SQLite's lock keeps other processes out until the COMMIT."""
    begin(store, *position)
    if sql.execute(SLOT).fetchone():
        ask(stream, "DROP_REPLICATION_SLOT search")
    failover = ", FAILOVER" if sql.info.server_version >= 170000 else ""
    [[_, start, snapshot, _]] = ask(stream, f"CREATE_REPLICATION_SLOT search LOGICAL atproto (SNAPSHOT 'export'{failover})")
    for table in ("position", "post", "word"):
        store.execute(f"DELETE FROM {table}")
    with sql.transaction(), sql.cursor("posts") as posts:
        sql.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        sql.execute(f"SET TRANSACTION SNAPSHOT '{snapshot}'")
        for post in posts.execute(COPY):
            put(store, *post)
    store.execute("INSERT INTO position VALUES (?, ?, ?)", (number(start), *server))
    store.execute("COMMIT")


def connect(store, sql, stream, lost):
    """Begins the stream at the index's position, if the server has all changes after the position."""
    [[system, timeline, *_]] = ask(stream, "IDENTIFY_SYSTEM")
    server, position = (system, int(timeline)), store.execute("SELECT * FROM position").fetchall()
    if lost or not position:
        build(store, sql, stream, server, *position)
    [position] = store.execute("SELECT * FROM position").fetchall()
    if position[1:] != server:
        history = ask(stream, f"TIMELINE_HISTORY {timeline}")[0][1].splitlines() if timeline != "1" else []
        ends = {int(line.split()[0]): number(line.split()[1]) for line in history if line[:1].isdigit()}
        if position[1] != system or position[0] > ends.get(position[2], 0):
            raise Lost("the server does not have what the index has")
    if (sql.execute(SLOT).fetchone() or ["lost"])[0] == "lost":
        raise Lost("the slot is gone")
    ask(stream, f"START_REPLICATION SLOT search LOGICAL {position[0] >> 32:X}/{position[0] & 0xFFFFFFFF:X} ({OPTIONS})")
    # from now on nobody else can move the slot
    _, pid, confirmed = sql.execute(SLOT).fetchone() or (None, None, None)
    if pid != stream.backend_pid:
        raise psycopg.OperationalError("the slot belongs to another process")
    if number(confirmed) > position[0]:
        raise Lost("somebody else has read the slot")
    return position, server


def end(store, position):
    """Changes and position become durable together."""
    store.execute("UPDATE position SET lsn = ?, system = ?, timeline = ?", position)
    store.execute("COMMIT")
    return position


def follow(store, sql, stream, lost):
    position, server = connect(store, sql, stream, lost)
    while True:
        length, message = stream.get_copy_data(0)
        if length < 0:
            raise psycopg.OperationalError("the server has ended the stream")
        if message[:1] == b"k":
            # the server has no more changes up to here; stored when the server asks for an answer, or after 16 MB of WAL
            lsn, wanted = struct.unpack("!Q8x?", message[1:])
            if lsn > position[0] + (0 if wanted else 1 << 24) and not store.in_transaction:
                begin(store, position)
                position = end(store, (lsn, *server))
        else:
            change = json.loads(bytes(message[25:]))
            if not store.in_transaction:
                begin(store, position)
            if change["kind"] == "commit" and change["commit"].get("record") != "unchanged":
                commit = change["commit"]
                uri = f"at://{change['did']}/{commit['collection']}/{commit['rkey']}"
                if commit["operation"] == "delete":
                    remove(store, uri)
                else:
                    put(store, uri, commit["cid"], commit.get("record"))
            elif change["kind"] == "position":
                position = end(store, (number(change["lsn"]), *server))
            else:
                raise Lost(change["kind"])
        if not store.in_transaction or message[:1] == b"k":
            # confirms what is stored, and no more; the server ends the connection of a silent program
            stream.put_copy_data(struct.pack("!cQQQQ?", b"r", *[position[0]] * 3, 0, False))
            stream.flush()


signal.signal(signal.SIGINT, signal.SIG_DFL)
database, lost = os.environ["DATABASE_URL"], False
while True:
    try:
        with closing(sqlite3.connect(sys.argv[1], 60, isolation_level=None)) as store, closing(psycopg.connect(database, autocommit=True)) as sql:
            store.executescript(TABLES)
            with closing(psycopg.connect(database, autocommit=True, replication="database")) as connection:
                follow(store, sql, connection.pgconn, lost)
    except (Lost, psycopg.OperationalError) as reason:
        lost = isinstance(reason, Lost)
        print("begin anew" if lost else "connect again", reason, sep=": ", file=sys.stderr)
        time.sleep(1)
