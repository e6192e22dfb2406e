-- Every type of the extension in everything that a dump, pg_upgrade or a
-- replica has to carry: plain and modified columns, arrays, composites,
-- domains, keys, indexes of each kind, partitions, constraints, policies.

CREATE SCHEMA every;
SET search_path = every, public;

CREATE DOMAIN post AS aturi(record) CHECK (aturi_collection(VALUE) = 'app.bsky.feed.post');

CREATE TABLE plain (
    n int PRIMARY KEY, did did, handle handle, nsid nsid, rkey recordkey, tid atproto.tid DEFAULT tid_generate(), cid cidlink,
    uri aturi, nosh noshuri, uris aturi[], tids atproto.tid[], ref strongref, refs strongref[], post post, value dagcbor,
    pair text GENERATED ALWAYS AS (did_method(did) || nsid_name(nsid)) STORED
);
CREATE TABLE modified (
    n int PRIMARY KEY, did did(blessed), any_key recordkey('any'), tid_key recordkey(tid), nsid_key recordkey(nsid),
    self recordkey('literal:self') DEFAULT 'self', strict_key recordkey(strict), cid cidlink(blessed),
    lexicon aturi(lexicon), strict aturi(strict), record aturi(record), nosh noshuri(strict), records aturi(record)[]
);

INSERT INTO plain
SELECT n, d, h, c, k, t, cidlink_of(sha256(n::text::bytea)), aturi(d, c, k), ('nosh://' || n + 1 || '/' || c || '/' || k)::noshuri,
    ARRAY[aturi(d), NULL, aturi(d, c)], ARRAY[t, tid_floor(tid_timestamp(t))],
    (aturi(h), cidlink_of('\x'))::strongref, ARRAY[(NULL, cidlink_of('\xa0'))]::strongref[], aturi(d, 'app.bsky.feed.post', k),
    CASE n % 4 WHEN 0 THEN '\xa16166fb3ff8000000000000' WHEN 1 THEN format('{"n": %s, "text": "x\u0000"}', n) WHEN 2 THEN format('{"$link": "%s"}', cidlink_of(n::text::bytea))
        ELSE format('{"$type": "app.bsky.feed.like", "subject": {"cid": "%s", "uri": "%s"}, "createdAt": "2026-01-01T00:00:00.%sZ"}', cidlink_of('\xa0'), aturi(d, c, k), 100 + n) END::dagcbor
FROM generate_series(1, 500) n,
    LATERAL (SELECT md5(n::text) AS hex, '2026-01-01 UTC'::timestamptz + n * interval '1.000001 s' AS at) a,
    LATERAL (SELECT CASE n % 5 WHEN 0 THEN 'did:web:' || hex || '.example' WHEN 1 THEN 'did:key:' || hex
            ELSE 'did:plc:' || left(translate(hex, '0189', 'wxyz'), 24) END::did AS d, ('U' || hex || '.Example.com')::handle AS h,
        CASE n % 3 WHEN 0 THEN 'app.bsky.feed.like' WHEN 1 THEN 'com.example.x' || hex ELSE 'app.bsky.feed.post' END::nsid AS c,
        atproto.tid(at, n) AS t) b,
    LATERAL (SELECT CASE n % 4 WHEN 0 THEN 'key:' || hex WHEN 1 THEN 'self' ELSE t::text END::recordkey AS k) e;
INSERT INTO plain (n, tid) VALUES (0, NULL);
INSERT INTO modified
SELECT n, did, rkey, tid::recordkey, nsid::recordkey, 'self', ('key-' || n)::recordkey, cid, aturi(did), aturi(did, nsid, tid::recordkey),
    aturi(did, nsid, tid::recordkey), ('nosh://' || n)::noshuri, ARRAY[aturi(did, nsid, tid::recordkey)]
FROM plain WHERE did_is_blessed(did);

-- Keys, and an index of each kind on each type
CREATE TABLE by_uri (uri aturi(record) PRIMARY KEY, cid cidlink NOT NULL UNIQUE);
INSERT INTO by_uri SELECT uri, cid FROM plain WHERE aturi_is_record(uri);
CREATE TABLE by_parts (did did, collection nsid, rkey recordkey, tid atproto.tid, PRIMARY KEY (did, collection, rkey));
INSERT INTO by_parts SELECT did, nsid, rkey, tid FROM plain WHERE n > 0;
CREATE TABLE without_key (did did, tid atproto.tid, uris aturi[]);
INSERT INTO without_key SELECT did, tid, uris FROM plain;
ALTER TABLE by_uri REPLICA IDENTITY USING INDEX by_uri_cid_key;
ALTER TABLE without_key REPLICA IDENTITY FULL;
CREATE INDEX ON plain (did, handle, nsid, rkey, tid, cid);
CREATE INDEX ON plain (uri);
CREATE INDEX ON plain (nosh);
CREATE INDEX ON plain ((~ uri)) WHERE uri <@ 'did:plc:z72i7hdynmk6r22z27h6tvur'::did OR n < 100;
CREATE INDEX ON plain USING gin (uris);
CREATE INDEX ON plain (try_did(did::text), try_handle(handle::text), try_nsid(nsid::text), try_recordkey(rkey::text), try_tid(tid::text), try_cidlink(cid::text));
CREATE INDEX ON plain (try_aturi(uri::text)) WHERE did LIKE 'did:plc:%';
CREATE INDEX ON plain (try_noshuri(nosh::text), recordkey_timestamp(rkey), length(handle));
CREATE INDEX ON plain USING hash (did);
CREATE INDEX ON plain USING hash (handle);
CREATE INDEX ON plain USING hash (nsid);
CREATE INDEX ON plain USING hash (rkey);
CREATE INDEX ON plain USING hash (tid);
CREATE INDEX ON plain USING hash (cid);
CREATE INDEX ON plain USING hash (uri);
CREATE INDEX ON plain USING hash (nosh);
CREATE INDEX ON plain USING hash (value);
CREATE INDEX ON plain USING gin ((value::jsonb) jsonb_path_ops);
CREATE INDEX ON plain USING brin (did, handle, nsid, rkey, tid, cid, uri, nosh);
CREATE INDEX ON plain USING brin (did did_bloom_ops, tid atproto_tid_minmax_multi_ops);
CREATE INDEX ON plain USING brin (cid cidlink_bloom_ops);
CREATE STATISTICS kinds ON did, nsid FROM plain;

CREATE TABLE hashed (did did, tid atproto.tid) PARTITION BY HASH (did, tid);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT did, tid FROM plain;
CREATE TABLE ranged (uri aturi PRIMARY KEY) PARTITION BY RANGE (uri);
CREATE TABLE ranged_plc PARTITION OF ranged FOR VALUES FROM ('at://did:plc:a') TO ('at://did:plc:zz');
CREATE TABLE ranged_rest PARTITION OF ranged DEFAULT;
INSERT INTO ranged SELECT uri FROM plain WHERE n > 0;
CREATE TABLE listed (nsid nsid) PARTITION BY LIST (nsid);
CREATE TABLE listed_some PARTITION OF listed FOR VALUES IN ('app.bsky.feed.like', 'app.bsky.feed.post');
CREATE TABLE listed_rest PARTITION OF listed DEFAULT;
INSERT INTO listed SELECT nsid FROM plain;

CREATE TABLE checked (uri aturi CHECK (uri <@ 'at://did:plc:z72i7hdynmk6r22z27h6tvur'), tid atproto.tid CHECK (tid > '2222222222222'),
    EXCLUDE USING hash (uri WITH =));
INSERT INTO checked VALUES ('at://did:plc:z72i7hdynmk6r22z27h6tvur/app.bsky.feed.post', '3jwdwj2ctlk26');
ALTER TABLE checked ENABLE ROW LEVEL SECURITY;
CREATE POLICY posts ON checked USING (aturi_collection(uri) = 'app.bsky.feed.post' AND tid >= tid_floor('2020-01-01 UTC'));
CREATE VIEW inside AS SELECT u.uri, p.n FROM by_uri u JOIN plain p ON u.uri <@ p.did WHERE ~ u.uri = u.uri;
CREATE MATERIALIZED VIEW newest AS SELECT did, max(tid) AS tid FROM by_parts GROUP BY did;

-- What is in each table, as one line; and that the indexes find it.
CREATE FUNCTION contents() RETURNS SETOF text LANGUAGE plpgsql SET search_path = every, public AS $$
DECLARE
    t regclass;
    line text;
BEGIN
    FOR t IN SELECT oid FROM pg_class WHERE relnamespace = 'every'::regnamespace AND relkind IN ('r', 'p', 'v', 'm') ORDER BY relname COLLATE "C" LOOP
        EXECUTE format('SELECT concat_ws(%L, %L, count(*), md5(string_agg(x::text, %L ORDER BY x::text COLLATE "C"))) FROM %s x', ' ', t, E'\n', t) INTO line;
        RETURN NEXT line;
    END LOOP;
END $$;
CREATE FUNCTION found() RETURNS SETOF text LANGUAGE sql SET search_path = every, public SET enable_seqscan = off AS $$
    SELECT concat_ws(' ', count(*), count(DISTINCT u.cid)) FROM plain p JOIN by_uri u USING (uri)
    UNION ALL
    SELECT concat_ws(' ', count(*), (SELECT count(*) FROM plain WHERE value @> '{"$type": "app.bsky.feed.like"}')) FROM plain p WHERE value = (SELECT value FROM plain WHERE n = 7)
    UNION ALL
    SELECT count(*)::text FROM by_uri u JOIN plain p ON try_aturi(p.uri::text) = u.uri WHERE p.did LIKE 'did:plc:%'
    UNION ALL
    SELECT count(*)::text FROM plain p JOIN by_parts b ON (b.did, b.collection, b.rkey) = (p.did, p.nsid, p.rkey);
$$;
RESET search_path;
