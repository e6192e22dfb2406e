-- See check.sh.
SET client_min_messages = warning;
CREATE EXTENSION atproto;
SELECT atproto.create_tables('atproto');
SELECT atproto.subscribe('s', 'wss://example.com', links => 'all');
SELECT atproto.pause('s');
INSERT INTO atproto.repo (did, rev, sync)
SELECT 'did:plc:' || rpad(translate(md5(n::text), '0189', 'wxyz'), 24, 'a'), '3mzzzzzzzzz22', 'synchronized' FROM generate_series(1, :repos) n;
INSERT INTO atproto.record (did, collection, rkey, rev, cid, value)
SELECT r.did, 'app.bsky.feed.like', ((i::bigint * 1000000 + 1700000000000000) * 1024)::atproto.tid::recordkey, '3mzzzzzzzzz22',
	('\x01711220' || sha256(decode(lpad(to_hex(i), 16, '0'), 'hex')))::cidlink,
	jsonb_build_object('$type', 'app.bsky.feed.like', 'createdAt', '2026-11-22T12:00:00.000Z', 'subject',
		jsonb_build_object('uri', 'at://' || r.did || '/app.bsky.feed.post/3jzfcijpj2z2' || chr(97 + i % 26), 'cid', 'bafyreib2rxk3rybk3aobmv5cjuql3bm2twh4jo5uxgf5kpqcsgz7soitae'))
FROM atproto.repo r, generate_series(1, 400) i;
INSERT INTO atproto.link_source VALUES (1, 'app.bsky.feed.like', 'subject.uri');
INSERT INTO atproto.link SELECT (value #>> '{subject,uri}')::aturi, 1, rkey, did FROM atproto.record;
UPDATE atproto.repo p SET data = (atproto.audit(p.did)).root;
VACUUM (FREEZE, ANALYZE) atproto.record, atproto.repo, atproto.link;
SELECT count(*), pg_size_pretty(pg_total_relation_size('atproto.record')) FROM atproto.record;
CREATE FUNCTION cpu() RETURNS float8 LANGUAGE sql VOLATILE AS $$
	SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e9 $$;
CREATE PROCEDURE measure(call text) LANGUAGE plpgsql AS $$
DECLARE
	began float8 := cpu();
	wall timestamptz := clock_timestamp();
	n bigint;
BEGIN
	EXECUTE format('SELECT count(*) FROM atproto.check(%s)', call) INTO n;
	RAISE WARNING 'check(%): % findings, % s of processor time, % s', call, n, round((cpu() - began)::numeric, 2),
		round(EXTRACT(epoch FROM clock_timestamp() - wall), 2);
END $$;
CALL measure('');
CALL measure('');
CALL measure('share => 0.1');
CALL measure('share => 0.01');
CALL measure('deep => true');
