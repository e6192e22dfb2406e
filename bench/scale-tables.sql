-- What bench/scale.sh says of all tables, after the consumer has filled those in the schema "grown" with
-- everything that it can keep: bytes of a row.
INSERT INTO atproto.identity (did, state, key, pds, handle_claimed, handle_state, resolved_at, asked_at)
SELECT account(n), 'good', '\xe701'::bytea || substr(sha256(int8send(n)), 1, 32) || '\x02', 'https://host' || n % 100 || '.example.com',
	   ('user' || n || '.example.com')::handle, 'valid', now(), now()
FROM generate_series(1, 100000) n;
VACUUM ANALYZE;

CREATE VIEW sizes AS
SELECT c.oid, relname, reltuples::bigint AS rows, pg_table_size(c.oid) / reltuples AS bytes, pg_indexes_size(c.oid) / reltuples AS index_bytes
FROM pg_class c WHERE relkind = 'r' AND (relnamespace = 'grown'::regnamespace OR c.oid = 'atproto.identity'::regclass) AND reltuples >= 10000;
SELECT format('| `%s` | %s | %s | %s |', relname, rows, round(bytes), round(index_bytes)) FROM sizes
ORDER BY array_position('{record,repo,record_event,link,identity}', relname), relname;
