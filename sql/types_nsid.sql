-- The stored forms of nsid: a code for the well-known collections (core/syntax/nsid_list.h), else the text.  Where an
-- older library has stored the text of a name that has a code now, both forms are one value to everything.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

-- To see the bytes, and to write those of an older library, or of a newer one.
CREATE CAST (nsid AS bytea) WITHOUT FUNCTION;
CREATE CAST (bytea AS nsid) WITHOUT FUNCTION;
CREATE FUNCTION old_form(n nsid) RETURNS nsid LANGUAGE sql IMMUTABLE RETURN convert_to(n::text, 'UTF8')::nsid;

SELECT n, n::bytea AS stored, pg_column_size(n) AS bytes, old_form(n) AS old, octet_length(old_form(n)::bytea) AS old_length
FROM unnest('{app.bsky.feed.like, app.bsky.feed.post, social.psky.chat.room, com.example.note, app.bsky.feed.likes}'::nsid[]) n;

-- Both forms of each name, and names between them.
CREATE TABLE forms AS
SELECT n, old_form(n) AS o FROM unnest('{app.bsky.feed.like, app.bsky.feed.post, app.bsky.feed.postgate, app.bsky.feed.posts, app.bsky.graph.follow,
	com.example.note, com.whtwnd.blog.entry, social.psky.chat.room, works.catalog.album, xyz.statusphere.status, a.b.c, zz.b.c}'::nsid[]) n;
SELECT count(*) FILTER (WHERE n::bytea <> o::bytea) AS different_bytes,
	   bool_and(n = o AND o = n AND NOT n <> o AND NOT o <> n AND n <= o AND n >= o AND NOT n < o AND NOT n > o AND nsid_cmp(n, o) = 0) AS equal,
	   bool_and(nsid_hash(n) = nsid_hash(o) AND nsid_hash_extended(n, 7) = nsid_hash_extended(o, 7)) AS equal_hash,
	   bool_and(nsid_hash(n) = hashtext(n::text) AND nsid_hash_extended(n, 7) = hashtextextended(n::text, 7)) AS hash_of_text
FROM forms;
SELECT bool_and(sign(nsid_cmp(a.n, b.o)) = sign(byteacmp(a.o::bytea, b.o::bytea)) AND (a.o = b.n) = (a.n::text = b.o::text) AND (a.o <> b.n) = (a.n::text <> b.o::text)) AS order_of_texts
FROM forms a, forms b;
SELECT n FROM (SELECT n FROM forms UNION ALL SELECT o FROM forms) f ORDER BY n;
SELECT min(v), max(v) FROM (SELECT CASE i % 2 WHEN 0 THEN n ELSE o END AS v FROM forms, generate_series(1, 2) i) s;
SELECT count(DISTINCT v) AS names, count(*) AS rows FROM (SELECT n AS v FROM forms UNION ALL SELECT o FROM forms) s;
SET enable_hashagg = off;
SELECT count(*) AS sorted_groups FROM (SELECT v FROM (SELECT n AS v FROM forms UNION ALL SELECT o FROM forms) s GROUP BY v) g;
RESET enable_hashagg;
SET enable_nestloop = off; SET enable_mergejoin = off;
SELECT count(*) AS hash_join FROM forms a JOIN forms b ON a.n = b.o;
SET enable_hashjoin = off; RESET enable_mergejoin;
SELECT count(*) AS merge_join FROM forms a JOIN forms b ON a.n = b.o;
RESET enable_nestloop; RESET enable_hashjoin;

-- Functions and casts read both.
SELECT bool_and(n::text = o::text AND nsid_send(n) = nsid_send(o) AND nsid_send(o) = o::bytea AND length(n) = length(o) AND to_jsonb(n) = to_jsonb(o)
	AND nsid_name(n) = nsid_name(o) AND nsid_authority(n) = nsid_authority(o) AND nsid_normalize(n)::bytea = nsid_normalize(o)::bytea
	AND nsid_matches(o, 'app.bsky.feed.*') = nsid_matches(n, 'app.bsky.feed.*') AND nsid_matches(n, o::text) AND nsid_matches(o, n::text)
	AND (n LIKE 'app.bsky.f%') = (o LIKE 'app.bsky.f%') AND (n LIKE '%.post') = (o ~~ '%.post') AND (n ILIKE 'APP.%') = (o ILIKE 'APP.%')
	AND n::recordkey = o::recordkey AND aturi('a.example', n, 'self') = aturi('a.example', o, 'self')
	AND aturi_collection(aturi('a.example', o))::bytea = n::bytea AND nsid_authority_is_resolvable(o)) AS alike
FROM forms;
SELECT n FROM forms WHERE o LIKE 'app.bsky.feed.post%' ORDER BY n;
SELECT nsid_normalize('App.Bsky.feed.like')::bytea, try_nsid('app.bsky.feed.like')::bytea;
SELECT atproto.lexicon_valid('{"$type": "app.bsky.feed.like"}', n) = atproto.lexicon_valid('{"$type": "app.bsky.feed.like"}', o) AS judged FROM forms WHERE n = 'app.bsky.feed.like';

-- Indexes find either form by either, and keep keys unique; there is no deduplication.
CREATE TABLE both_forms (v nsid, i int);
INSERT INTO both_forms SELECT CASE i % 2 WHEN 0 THEN n ELSE o END, i FROM forms, generate_series(1, 200) i;
SET enable_seqscan = off;
CREATE INDEX both_btree ON both_forms (v);
SELECT count(*) FROM both_forms WHERE v = 'app.bsky.feed.post';
SELECT count(*) FROM both_forms WHERE v = old_form('app.bsky.feed.post');
SELECT count(*) FROM both_forms WHERE v >= 'app.bsky.feed.post' AND v < old_form('app.bsky.feed.posts');
SELECT amname, amproc::regproc FROM pg_amproc p JOIN pg_opfamily f ON f.oid = p.amprocfamily JOIN pg_am a ON a.oid = f.opfmethod
WHERE amproclefttype = 'nsid'::regtype AND amprocnum = 4 AND amname = 'btree';
SELECT nsid_equalimage(0);
DROP INDEX both_btree;
CREATE INDEX both_hash ON both_forms USING hash (v);
SELECT count(*) FROM both_forms WHERE v = 'app.bsky.feed.post';
SELECT count(*) FROM both_forms WHERE v = old_form('app.bsky.feed.post');
DROP INDEX both_hash;
RESET enable_seqscan;
CREATE TABLE one_form (v nsid PRIMARY KEY);
INSERT INTO one_form SELECT o FROM forms;
INSERT INTO one_form SELECT n FROM forms WHERE n = 'app.bsky.feed.like';
INSERT INTO one_form SELECT n FROM forms ON CONFLICT DO NOTHING;
SELECT count(*) FROM one_form;

-- A large sort of few names gives its abbreviated keys up.
SELECT bool_and(before <= v) AS sorted FROM (SELECT v, lag(v) OVER (ORDER BY v) AS before FROM both_forms, generate_series(1, 10)) s WHERE before IS NOT NULL;

-- Partitions take either form of a name.
CREATE TABLE listed (v nsid) PARTITION BY LIST (v);
CREATE TABLE listed_post PARTITION OF listed FOR VALUES IN ('app.bsky.feed.post');
CREATE TABLE listed_rest PARTITION OF listed DEFAULT;
INSERT INTO listed SELECT v FROM both_forms;
SELECT tableoid::regclass, count(*), count(DISTINCT v) FROM listed GROUP BY 1 ORDER BY 1;
SELECT count(*) FROM listed WHERE v = old_form('app.bsky.feed.post');
CREATE TABLE hashed (v nsid) PARTITION BY HASH (v);
CREATE TABLE hashed_0 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 0);
CREATE TABLE hashed_1 PARTITION OF hashed FOR VALUES WITH (MODULUS 2, REMAINDER 1);
INSERT INTO hashed SELECT v FROM both_forms;
SELECT count(*) AS in_two_partitions FROM (SELECT v FROM hashed GROUP BY v HAVING count(DISTINCT tableoid) > 1) s;

-- The condition of a partial index and of a view may be stored in the other form.
CREATE INDEX both_partial ON both_forms (i) WHERE v = 'app.bsky.feed.post';
SET enable_seqscan = off;
EXPLAIN (COSTS OFF) SELECT i FROM both_forms WHERE v = old_form('app.bsky.feed.post') AND i = 7;
RESET enable_seqscan;

-- Codes that only a newer library knows are errors, never other names.
\set VERBOSITY sqlstate
SELECT '\xf0ff'::bytea::nsid;
\set VERBOSITY default
SELECT '\xff'::bytea::nsid::text;
SELECT '\x8401'::bytea::nsid = 'app.bsky.feed.like';
SELECT '\xf0ff'::bytea::nsid < 'app.bsky.feed.like';
SELECT nsid_hash('\xf0ff'::bytea::nsid);
SELECT nsid_send('\xf0ff'::bytea::nsid);
SELECT nsid_name('\xf0ff'::bytea::nsid);
SELECT aturi('a.example', '\xf0ff'::bytea::nsid);
SELECT '\xf0ff'::bytea::nsid = '\xf0fe'::bytea::nsid AS two_unknown, '\xf0ff'::bytea::nsid = '\xf0ff'::bytea::nsid AS one_unknown;
SELECT v FROM (VALUES ('\xf0ff'::bytea::nsid), ('a.b.c')) s (v) ORDER BY v;

DROP CAST (bytea AS nsid);
DROP CAST (nsid AS bytea);
DROP TABLE forms, both_forms, one_form, listed, hashed;
DROP FUNCTION old_form;
