-- Order, equality, hashing and indexes of all types.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
SET TimeZone = 'UTC';
SELECT setseed(0.25);

-- Values of each type: random ones, near ones, and both stored forms of each.
CREATE TEMP TABLE words AS
SELECT n, right(((random() * 9e18)::bigint)::atproto.tid::text, 12) || right(((random() * 9e18)::bigint)::atproto.tid::text, 12) AS w,
	   ((random() * 9e18)::bigint)::atproto.tid AS t
FROM generate_series(1, 300) n;
CREATE TEMP TABLE v_did AS
SELECT DISTINCT d::did AS v FROM words, LATERAL (VALUES ('did:plc:' || w), ('did:plc:' || left(w, 1 + n % 24)), ('did:plc:' || left(w, 5) || '.' || n),
	('did:web:' || n), ('did:a:' || w), ('did:plc:' || upper(w)), ('did:plc:' || w || 'a')) x (d) WHERE n <= 80;
CREATE TEMP TABLE v_recordkey AS
SELECT DISTINCT k::recordkey AS v FROM words, LATERAL (VALUES (t::text), (left(t::text, 1 + n % 13)), (t::text || '-'), (w), ('self'), (left(t::text, 12) || '1')) x (k) WHERE n <= 100;
CREATE TEMP TABLE v_tid AS SELECT t AS v FROM words UNION VALUES ('2222222222222'::atproto.tid), ('c222222222222'), ('jzzzzzzzzzzzz'), ('bzzzzzzzzzzzz');
CREATE CAST (bytea AS nsid) WITHOUT FUNCTION;	-- to write a text that has a code, as a library without the code did
CREATE TEMP TABLE v_nsid AS
SELECT v FROM unnest('{app.bsky.actor.profile, app.bsky.feed.like, app.bsky.feed.post, app.bsky.graph.follow, social.psky.chat.room}'::nsid[]) v
UNION ALL SELECT convert_to(t, 'UTF8')::nsid FROM unnest('{app.bsky.feed.generator, app.bsky.feed.postgate, app.bsky.feed.repost, xyz.statusphere.status}'::text[]) t
UNION ALL SELECT DISTINCT s::nsid AS v FROM words, LATERAL (VALUES ('app.bsky.feed.' || left(w, 1) || 'x'), ('a.' || w || '.C'), ('a.b.c' || n)) x (s) WHERE n <= 150 AND left(w, 1) ~ '[a-z]';
CREATE TEMP TABLE v_handle AS SELECT DISTINCT (left(w, 1 + n % 20) || '.com')::handle AS v FROM words;
CREATE TEMP TABLE v_cidlink AS SELECT cidlink_of(w::bytea, CASE n % 2 WHEN 0 THEN 'raw' ELSE 'dag-cbor' END) AS v FROM words;
CREATE TEMP TABLE v_aturi AS
SELECT DISTINCT ('at://' || a || p)::aturi AS v
FROM (SELECT 'did:plc:' || w AS a FROM words WHERE n <= 4 UNION VALUES ('foo.com'), ('foo.co'), ('did:web:foo.com'), ('did:plc:x'), ('zoo.org')) a,
	 (SELECT '/app.bsky.feed.post/' || t AS p FROM words WHERE n <= 10 UNION VALUES (''), ('?'), ('?x'), ('#/x'), ('/a'), ('/a/b'), ('/a!'), ('/app.bsky.feed.post'),
	 ('/app.bsky.feed'), ('/app.bsky.graph.follow/self'), ('/app.bsky.actor.profile/self'), ('/app.bsky.feed.like/3jwdwj2ctlk26#/x'), ('/app.bsky.feed.post/3jwdwj2ctlk26/x'), ('/b.c.d/3jwdwj2ctlk26'), ('/b.c.d/3jwdwj2ctlk2')) p;
CREATE TEMP TABLE v_noshuri AS SELECT replace(v::text, 'at:', 'nosh:')::noshuri AS v FROM v_aturi;

-- The laws: the operators agree with each other and with compare; the order
-- is total; equal values have equal hashes; sorting (by abbreviated keys) and
-- the index give the order of the operators; binary and text agree.
CREATE FUNCTION pg_temp.laws(type text, prefix text) RETURNS TABLE (law text, ok boolean) LANGUAGE plpgsql AS $$
BEGIN
	RETURN QUERY EXECUTE replace(replace($q$
	WITH p AS MATERIALIZED (SELECT a.v AS a, b.v AS b, PREFIX_cmp(a.v, b.v) AS c FROM v_PREFIX a, v_PREFIX b)
	SELECT * FROM (
		SELECT 'operators agree with compare', bool_and((a < b) = (c < 0) AND (a <= b) = (c <= 0) AND (a = b) = (c = 0)
			AND (a <> b) = (c <> 0) AND (a >= b) = (c >= 0) AND (a > b) = (c > 0)) FROM p
		UNION ALL SELECT 'antisymmetric', bool_and(sign(c) = -sign(PREFIX_cmp(b, a))) FROM p
		UNION ALL SELECT 'equal is the same text', bool_and((c = 0) = (a::text = b::text)) FROM p
		UNION ALL SELECT 'smaller and larger', bool_and((PREFIX_smaller(a, b) = a OR PREFIX_smaller(a, b) = b) AND PREFIX_smaller(a, b) <= a
			AND PREFIX_smaller(a, b) <= b AND PREFIX_larger(a, b) >= a AND PREFIX_larger(a, b) >= b) FROM p
		UNION ALL SELECT 'equal values have equal hashes', bool_and(PREFIX_hash(v) = PREFIX_hash(v::text::TYPE)
			AND PREFIX_hash_extended(v, 7) = PREFIX_hash_extended(v::text::TYPE, 7)) FROM v_PREFIX
		UNION ALL SELECT 'with seed 0 the low half is the hash', bool_and((PREFIX_hash_extended(v, 0) & 4294967295) = (PREFIX_hash(v)::bigint & 4294967295)) FROM v_PREFIX
		UNION ALL SELECT 'hashes hardly collide', count(DISTINCT PREFIX_hash(v)) > 0.999 * count(*) FROM v_PREFIX
		UNION ALL SELECT 'each bit of the hash is even', bool_and(share BETWEEN 0.35 AND 0.65)
			FROM (SELECT avg((PREFIX_hash(v) >> bit) & 1) AS share FROM v_PREFIX, generate_series(0, 31) bit GROUP BY bit) s
		UNION ALL SELECT 'enough values', count(*) > 90 FROM v_PREFIX
		UNION ALL SELECT 'sorted ascending, so transitive', bool_and(before < v) FROM (SELECT v, lag(v) OVER (ORDER BY v) AS before FROM v_PREFIX) s WHERE before IS NOT NULL
		UNION ALL SELECT 'every pair is in the order of the sort', bool_and((x.n < y.n) = (x.v < y.v))
			FROM (SELECT v, row_number() OVER (ORDER BY v) AS n FROM v_PREFIX) x, (SELECT v, row_number() OVER (ORDER BY v) AS n FROM v_PREFIX) y
		UNION ALL SELECT 'min and max', (SELECT min(v) FROM v_PREFIX) = (SELECT v FROM v_PREFIX ORDER BY v LIMIT 1)
			AND (SELECT max(v) FROM v_PREFIX) = (SELECT v FROM v_PREFIX ORDER BY v DESC LIMIT 1)
		UNION ALL SELECT 'send is the text', bool_and(PREFIX_send(v) = convert_to(v::text, 'UTF8')) FROM v_PREFIX
			WHERE 'TYPE' NOT IN ('atproto.tid', 'cidlink') HAVING count(*) > 0
	) s$q$, 'TYPE', type), 'PREFIX', prefix);
END $$;
SELECT type, law, ok FROM (VALUES ('did', 'did'), ('handle', 'handle'), ('nsid', 'nsid'), ('recordkey', 'recordkey'),
	('atproto.tid', 'tid'), ('cidlink', 'cidlink'), ('aturi', 'aturi'), ('noshuri', 'noshuri')) t (type, prefix),
	LATERAL pg_temp.laws(type, prefix) WHERE ok IS NOT TRUE;
SELECT count(*) FROM pg_temp.laws('did', 'did');

-- The order of URIs is by component (A-21): the end, '#', '?' and '/' come first.
SELECT v FROM unnest('{at://a.b.c, at://a.b/c, at://a.b?x, at://a.b#/x, at://a.b, at://a.b/c/d, at://a.b/c!, at://a.b/c/3jwdwj2ctlk26, at://a.b/app.bsky.feed.post,
	at://a.b/app.bsky.feed, at://a.b/app.bsky.feed/x, at://a.b/app.bsky.graph.x, at://a.b/app.bsky, at://a.b/app.bsky.g}'::aturi[]) v ORDER BY v;

-- Large sorts use abbreviated keys, and give them up where they do not pay.
CREATE TEMP TABLE big AS
SELECT aturi('did:plc:44ybard66vv44zksje25o7dz'::did, 'app.bsky.feed.post', ((random() * 9e18)::bigint)::atproto.tid::recordkey) AS one_repo,
	   ('at://did:plc:' || right(((random() * 9e18)::bigint)::atproto.tid::text, 12) || right(((random() * 9e18)::bigint)::atproto.tid::text, 12))::aturi AS many,
	   ((random() * 9e18)::bigint)::atproto.tid::recordkey AS rkey
FROM generate_series(1, 25000);
SELECT bool_and(before <= one_repo) AS sorted FROM (SELECT one_repo, lag(one_repo) OVER (ORDER BY one_repo) AS before FROM big) s WHERE before IS NOT NULL;
SELECT bool_and(before <= many) AS sorted FROM (SELECT many, lag(many) OVER (ORDER BY many) AS before FROM big) s WHERE before IS NOT NULL;
SELECT bool_and(before <= rkey) AS sorted FROM (SELECT rkey, lag(rkey) OVER (ORDER BY rkey) AS before FROM big) s WHERE before IS NOT NULL;

-- Every access method finds every value, and nothing else.
CREATE FUNCTION pg_temp.finds(prefix text, method text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	found bigint;
	total bigint;
	plan text;
	line text;
BEGIN
	EXECUTE format('CREATE INDEX found_i ON v_%s USING %s', prefix, method);
	EXECUTE format('ANALYZE v_%s', prefix);
	SET LOCAL enable_seqscan = off; SET LOCAL enable_hashjoin = off; SET LOCAL enable_mergejoin = off; SET LOCAL enable_material = off;
	EXECUTE format('SELECT count(*) FROM v_%1$s a JOIN v_%1$s b ON a.v = b.v', prefix) INTO found;
	FOR line IN EXECUTE format('EXPLAIN (COSTS OFF) SELECT count(*) FROM v_%1$s a JOIN v_%1$s b ON a.v = b.v', prefix) LOOP
		plan := concat(plan, line);
	END LOOP;
	EXECUTE format('SELECT count(*) FROM v_%1$s', prefix) INTO total;
	DROP INDEX found_i;
	RETURN CASE WHEN found <> total THEN 'wrong' WHEN plan !~ 'found_i' THEN 'no index' ELSE 'ok' END;
END $$;
CREATE TEMP TABLE prefixes AS SELECT unnest('{did,handle,nsid,recordkey,tid,cidlink,aturi,noshuri}'::text[]) AS prefix;
SELECT prefix, pg_temp.finds(prefix, 'btree (v)') AS btree, pg_temp.finds(prefix, 'hash (v)') AS hash, pg_temp.finds(prefix, 'brin (v)') AS minmax,
	   pg_temp.finds(prefix, format('brin (v %s_bloom_ops)', replace(prefix, 'tid', 'atproto_tid'))) AS bloom
FROM prefixes;
SELECT pg_temp.finds('tid', 'brin (v atproto_tid_minmax_multi_ops) WITH (pages_per_range = 1)') AS minmax_multi;
-- minmax-multi over several pages, with two clusters of values in each range
CREATE TEMP TABLE clusters AS
SELECT (CASE n % 2 WHEN 0 THEN n ELSE 4000000000000000000 + n END)::bigint::atproto.tid AS v FROM generate_series(1, 5000) n;
CREATE INDEX ON clusters USING brin (v atproto_tid_minmax_multi_ops) WITH (pages_per_range = 2);
SET enable_seqscan = off;
SELECT count(*) FROM clusters WHERE v BETWEEN 100::bigint::atproto.tid AND 199::bigint::atproto.tid;
SELECT count(*) FROM clusters WHERE v > 4000000000000004000::bigint::atproto.tid;
RESET enable_seqscan;

-- Equal keys share one entry: btree deduplication (equalimage).
CREATE TEMP TABLE same AS SELECT 'did:plc:44ybard66vv44zksje25o7dz'::did AS d, 'did:plc:44ybard66vv44zksje25o7dz'::text AS t, n AS i FROM generate_series(1, 10000) n;
CREATE INDEX same_d ON same (d);
CREATE INDEX same_i ON same (i);
SELECT pg_relation_size('same_d') < pg_relation_size('same_i') / 2 AS deduplicated;

-- A condition on the second column only: PostgreSQL 18 skips from one TID to the
-- next (skip support); before, the whole index is read.
CREATE TEMP TABLE skipped AS
SELECT t, n FROM unnest('{2222222222222, 2222222222223, 2222222222225, 3jwdwj2ctlk26, jzzzzzzzzzzzy, jzzzzzzzzzzzz}'::atproto.tid[]) t, generate_series(1, 1000) n;
CREATE INDEX ON skipped (t, n);
ANALYZE skipped;
SET enable_seqscan = off;
SELECT t FROM skipped WHERE n = 500 ORDER BY t;
SELECT t FROM skipped WHERE n = 500 AND t > '2222222222222' ORDER BY t DESC;
RESET enable_seqscan;

-- Partitions by hash and by range
CREATE TEMP TABLE parted (d did, u aturi) PARTITION BY HASH (d);
CREATE TEMP TABLE parted_0 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TEMP TABLE parted_1 PARTITION OF parted FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO parted SELECT v FROM v_did;
SELECT count(*) FILTER (WHERE tableoid = 'parted_0'::regclass) > count(*) / 3 AS first, count(*) FILTER (WHERE tableoid = 'parted_1'::regclass) > count(*) / 3 AS second FROM parted;
SELECT count(*) = (SELECT count(*) FROM v_did) AS found FROM v_did JOIN parted ON v = d;
CREATE TEMP TABLE ranged (t atproto.tid) PARTITION BY RANGE (t);
CREATE TEMP TABLE ranged_23 PARTITION OF ranged FOR VALUES FROM (tid_floor('2023-01-01Z')) TO (tid_floor('2024-01-01Z'));
INSERT INTO ranged VALUES ('3jwdwj2ctlk26');
INSERT INTO ranged VALUES ('2222222222222');

-- Joins of each kind, DISTINCT and GROUP BY
SELECT count(*) = (SELECT count(*) FROM v_aturi) AS hash_join FROM v_aturi a JOIN v_aturi b USING (v);
SET enable_hashjoin = off; SET enable_nestloop = off;
SELECT count(*) = (SELECT count(*) FROM v_aturi) AS merge_join FROM v_aturi a JOIN v_aturi b USING (v);
RESET enable_hashjoin; RESET enable_nestloop;
SELECT count(DISTINCT d) AS dids FROM same;

-- Frames by interval (in_range)
SELECT t, count(*) OVER (ORDER BY t RANGE BETWEEN '1 hour' PRECEDING AND CURRENT ROW) AS hour_before,
	   count(*) OVER (ORDER BY t RANGE BETWEEN CURRENT ROW AND '1 day' FOLLOWING) AS day_after,
	   count(*) OVER (ORDER BY t DESC RANGE BETWEEN '1 hour' PRECEDING AND '1 hour' FOLLOWING) AS around
FROM (SELECT tid_floor('2023-05-22Z'::timestamptz + n * interval '20 minutes') AS t FROM generate_series(0, 6) n
	  UNION VALUES ('2222222222222'::atproto.tid), ('jzzzzzzzzzzzz')) s ORDER BY t;
SELECT count(*) OVER (ORDER BY t RANGE BETWEEN '-1 hour' PRECEDING AND CURRENT ROW) FROM (VALUES ('2222222222222'::atproto.tid)) s (t);
