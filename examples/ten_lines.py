import sys, psycopg      # python3 ten_lines.py did:plc:... : the records of an account, fetched, checked, and followed from now on
account, stream = (sys.argv[1:] + ["wss://jetstream2.us-east.bsky.network/subscribe"])[:2]
with psycopg.connect(autocommit=True) as db:
    db.execute("CREATE EXTENSION IF NOT EXISTS atproto")
    db.execute("SELECT atproto.subscribe('mine', %s, dids => ARRAY[%s]::did[], backfill => 'repair')", (stream, account))
    db.execute("CALL atproto.await_backfill('mine')")
    for row in db.execute("SELECT collection, count(*) FROM atproto.record WHERE did = %s GROUP BY 1 ORDER BY 2 DESC", (account,)):
        print(*row)
    for row in db.execute("SELECT equal, reason FROM atproto.audit(%s)", (account,)):
        print("exactly the records of the last commit:", *row)
