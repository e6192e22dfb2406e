-- aturi and noshuri: levels of validity, parts, constructors, normal form.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
\pset null '(null)'
\set VERBOSITY default

-- Levels (A-30 to A-37, A-40), kind
SELECT rule, u, aturi_is_lexicon(u) AS lexicon, aturi_is_strict(u) AS strict, aturi_is_record(u) AS record, aturi_kind(u) AS kind
FROM (VALUES
	('A-19', 'at://foo.com/com.example.foo/123'::aturi),
	('A-19', 'at://foo.com/example/123'),
	('A-05', 'at://computer'),
	('A-04', 'at://example.com:3000'),
	('A-40', 'at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26'),
	('A-30', 'at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post'),
	('A-30', 'at://did:plc:44ybard66vv44zksje25o7dz'),
	('A-31', 'at://foo.com/com.example.foo/123?'),
	('A-31', 'at://foo.com/com.example.foo/123#/a'),
	('A-32', 'at://foo.com/com.example.foo/123/extra'),
	('A-33', 'at://foo.com/123'),
	('A-33', 'at://foo.com/short/stuff'),
	('A-34', 'at://foo.com/com.example.foo/.'),
	('A-34', 'at://foo.com/com.example.foo/..'),
	('A-34', 'at://foo.com/com.example.foo/...'),
	('A-35', 'at://foo.com/com.example.foo/%30'),
	('A-36', 'at://did:abc:123/com.example.foo/1'),
	('A-36', 'at://foo.com/com.example.foo/a:b'),
	('A-37', 'at://FOO.com/com.example.foo/1'),
	('A-37', 'at://did:key:z4/com.example.foo/1'),
	('A-36', 'at://foo.com/COM.example.foo/1'),
	('D1', 'at://did:plc:asdf123/com.example.foo')) v (rule, u);

-- Parts (A-38)
SELECT u, aturi_authority(u) AS authority, aturi_authority_kind(u) AS kind, aturi_did(u) AS did, aturi_handle(u) AS handle
FROM unnest('{at://did:plc:44ybard66vv44zksje25o7dz/a.b.c, at://did:web:x.y, at://Foo.com, at://computer, at://example.com:3000}'::aturi[]) u;
SELECT u, aturi_path(u) AS path, aturi_segments(u) AS segments, aturi_collection(u) AS collection, aturi_rkey(u) AS rkey, aturi_tid(u) AS tid
FROM unnest('{at://a.b, at://a.b/app.bsky.feed.post, at://a.b/app.bsky.feed.post/3jwdwj2ctlk26, at://a.b/app.bsky.actor.profile/self?x,
	at://a.b/app.bsky.feed.post/3jwdwj2ctlk26/x, at://a.b/x/3jwdwj2ctlk26, at://a.b/a.b.c/%30}'::aturi[]) u;
SELECT u, aturi_query(u) AS query, aturi_fragment(u) AS fragment, aturi_pointer(u) AS pointer, aturi_strip(u) AS strip, aturi_repo(u) AS repo
FROM unnest('{at://a.b, at://a.b?, at://a.b/c?x=1/2?#/a/0, at://a.b#/, at://a.b#/a~1b/~0/%C3%A9}'::aturi[]) u;
SELECT aturi_pointer('at://a.b#/~2');
SELECT aturi_pointer('at://a.b#/%ff');
SELECT aturi_pointer('at://a.b#/%00');

-- URIs of spaces (S-01, S-02, S-03): values of the type, in no level of the strict rules
SELECT u, aturi_kind(u) AS kind, aturi_space(u) AS space, aturi_space_type(u) AS type, aturi_space_skey(u) AS skey, aturi_space_author(u) AS author,
	aturi_space_collection(u) AS collection, aturi_space_rkey(u) AS rkey, aturi_did(u) AS authority, aturi_collection(u) AS public, aturi_is_lexicon(u) AS lexicon
FROM unnest('{at://did:web:a/space/com.example.forum/self, at://did:web:a/space/com.example.forum/self/did:web:b/com.example.post/3jwdwj2ctlk26?x#/y,
	at://did:web:a/space, at://did:web:a/space/com.example.forum, at://did:web:a/space/com.example.forum/self/did:web:b, at://did:web:a/space/com.example.forum/self/did:web:b/com.example.post,
	at://did:web:a/space/com.example.forum/self/did:web:b/com.example.post/x/y, at://did:web:a/space/forum/self, at://did:web:a/space/com.example.forum/..,
	at://did:web:a/space/com.example.forum/self/b.c/com.example.post/x, at://did:web:a/space/com.example.forum/self/did:web:b/post/x,
	at://did:web:a/space/com.example.forum/self/did:web:b/com.example.post/%30, at://a.b/space/com.example.forum/self, at://did:web:a/space.example.forum/self}'::aturi[]) u;
SELECT 'at://did:web:a/space/com.example.forum/self'::aturi(lexicon);
SELECT noshuri_kind('nosh://1/space/com.example.forum/self');
-- A space, and an author's repository in it, are ranges of the order.
SELECT u, u <@ 'at://did:web:a/space/com.example.forum/self'::aturi AS space, u <@ 'at://did:web:a/space/com.example.forum/self/did:web:b'::aturi AS author, u <@ 'did:web:a'::did AS authority
FROM unnest('{at://did:web:a/space/com.example.forum/self2, at://did:web:a/space/com.example.forum/self/did:web:b2/a.b.c/d, at://did:web:a/space/com.example.forum/self/did:web:b/a.b.c/d,
	at://did:web:a/space/com.example.forum/self, at://did:web:a/space.example.forum/self, at://did:web:a/space/com.example.forum.b/self}'::aturi[]) u ORDER BY u;
SELECT 'at://did:web:a/space/Com.Example.forum/self/did:web:B/A.b.c/d' ~= 'at://did:web:a/space/com.example.forum/self/did:web:b/a.b.c/d'::aturi AS same;

-- Constructors and casts (A-39)
SELECT aturi('did:web:localhost%3A1234'::did), aturi('did:plc:44ybard66vv44zksje25o7dz'::did, 'app.bsky.feed.post'),
	   aturi('did:plc:44ybard66vv44zksje25o7dz'::did, 'app.bsky.feed.post', '3jwdwj2ctlk26'), aturi('Foo.COM'::handle, 'a.b.c', 'self');
-- Literals need no cast: the first is the text of a DID or a handle.
SELECT aturi('did:plc:44ybard66vv44zksje25o7dz', 'app.bsky.feed.post', '3jwdwj2ctlk26'), aturi('Foo.COM', 'a.b.c', 'self'), aturi('did:web:a', 'a.b.c'), aturi('a.b', 'a.b.c');
SELECT aturi('did:web:a', 'a.b.c'::nsid, 'x'::recordkey), aturi('did:web:a', 'a.b.c', 'x'::recordkey), aturi('did:web:a'::text, 'a.b.c'::nsid, 'x'), aturi('did:web:a', 'a.b.c'::nsid);
SELECT aturi('a.b', 'a.b');
SELECT aturi('did:web', 'a.b.c');
SELECT aturi('a', 'a.b.c', 'self');
SELECT aturi('a.b', 'a.b', 'self');
SELECT aturi('a.b', 'a.b.c', '..');
SELECT aturi('did:m:v'::did, NULL) AS with_null, 'did:m:v'::did::aturi AS cast_did, 'a.b'::handle::aturi AS cast_handle;
-- A constructed value is the same as the one that was read.
SELECT aturi('did:plc:44ybard66vv44zksje25o7dz'::did, 'app.bsky.feed.post', '3jwdwj2ctlk26') =
	   'at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26' AS same;
-- Casts to text are by assignment; texts are read where a URI is wanted (types_text).
CREATE TEMP TABLE t (t text, u aturi);
INSERT INTO t (t) SELECT 'at://a.b'::aturi;
INSERT INTO t (u) SELECT t FROM t;
INSERT INTO t (u) SELECT t::aturi FROM t;
SELECT * FROM t WHERE u = 'at://a.b';
SELECT * FROM t WHERE u = 'at://a.b'::text;

-- Normal form of text, also of text that the type refuses (D6)
CREATE FUNCTION pg_temp.normal(t text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	RETURN aturi_normalize(t);
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || detail;
END $$;
SELECT rule, t, pg_temp.normal(t) AS normal
FROM (VALUES
	('N1', 'AT://foo.com'),
	('N2', 'at://foo.com/com.example.foo/a%2fb'),
	('N2', 'at://did:example:AbC%2fDe'),
	('N3', 'at://foo.com/com.example.foo/%31%32%33'),
	('N3', 'at://foo%2Ecom/com.example.foo'),
	('N3', 'at://foo.com/com.example.foo/%7e'),
	('N3', 'at://foo.com/com.example.foo/pre%3afix'),
	('N4', 'at://did:web:localhost%253A1234'),
	('N4', 'at://did:web:localhost%25253A1234'),
	('N4', 'at://did:web:LOCALHOST%3a1234'),
	('N4', 'at://did:plc:44YBARD66VV44ZKSJE25O7DZ'),
	('D8', 'at://did%3Aweb%3Aexample.com'),
	('N5', 'at://Bnewbold.Bsky.Team/app.bsky.feed.post/3jwdwj2ctlk26'),
	('N5', 'at://EXAMPLE.com:3000'),
	('N6', 'at://foo.com/./com.example.foo/./123'),
	('N6', 'at://foo.com/abc/../com.example.foo/123'),
	('N6', 'at://foo.com/../../com.example.foo'),
	('N6', 'at://foo.com/%2E%2E/com.example.foo'),
	('N7', 'at://foo.com//com.example.foo///123'),
	('N7', 'at://foo.com/a//../b'),
	('N8', 'at://foo.com/com.example.foo/123///'),
	('N8', 'at://foo.com/'),
	('N9', 'at://foo.com/COM.EXAMPLE.fooBar/Rkey'),
	('N9', 'at://foo.com/Example/123'),
	('N10', 'at://foo.com/com.example.foo/SELF'),
	('D7', 'at://foo.com/com.example.foo/123?Q=%6a#/K%65y'),
	('D6', 'at://DID:plc:abc'),
	('D6', 'at://did%3APLC%3Aabc'),
	('D6', 'at://foo.com/%zz'),
	('D6', 'at://u@foo.com'),
	('D6', 'at:///x'),
	('D6', 'http://foo.com')) v (rule, t);
SELECT ~ 'at://FOO.com/COM.a.b'::aturi AS operator, aturi_normalize('at://FOO.com/COM.a.b'::aturi) AS function,
	   ~ 'nosh://0xB794F5EA0BA39494CE839613FFFBA74279579268'::noshuri AS nosh;
SELECT a, b, a ~= b AS equivalent, a = b AS equal
FROM (VALUES
	('at://FOO.com/a.b.c'::aturi, 'at://foo.com/A.b.c'::aturi),
	('at://foo.com/a.b.c/x', 'at://foo.com/a.b.c/X'),
	('at://foo.com/a/../b', 'at://foo.com/b'),
	('at://did:web:A.b', 'at://did:web:a.b'),
	('at://did:key:A', 'at://did:key:a')) v (a, b);

-- Normal form: idempotent, and an equivalent of what it is made from; of values
-- that are put together at random.
SELECT setseed(0.5);
CREATE TEMP TABLE random_uris AS
SELECT aturi_normalize(t) AS u, t FROM (
	SELECT 'AT://' || (ARRAY['foo.com', 'FOO.com', 'did:plc:44YBARD66VV44ZKSJE25O7DZ', 'did:web:A.b%3a1', 'did:key:aB%2f', 'x', 'A:1', 'did%3Aweb%3Aq'])[1 + floor(random() * 8)] ||
		   (SELECT coalesce(string_agg('/' || (ARRAY['', '.', '..', 'COM.example.fooBar', 'app.bsky.feed.post', '%2e', '3jwdwj2ctlk26', 'a%2fB', '%41', 'A@b'])[1 + floor(random() * 10)], ''), '')
			FROM generate_series(1, n % 5)) ||
		   CASE WHEN n % 7 = 0 THEN '?%6a=/' ELSE '' END || CASE WHEN n % 5 = 0 THEN '#/%7E' ELSE '' END AS t
	FROM generate_series(1, 5000) n) s;
SELECT count(*) AS uris, count(*) FILTER (WHERE ~u = u) AS fixed, count(*) FILTER (WHERE aturi_normalize(u::text) = u) AS fixed_as_text,
	   count(*) FILTER (WHERE u::text::aturi = u) AS same_text, count(DISTINCT u) > 200 AS various
FROM random_uris;
-- Where the text was valid as it stood, it is equivalent to its normal form.
SELECT count(*) > 100 AS some, bool_and(t::aturi ~= u) AS equivalent
FROM (SELECT replace(t, 'AT:', 'at:') AS t, u FROM random_uris WHERE t !~ '//.*//|/$|/[?#]|did%3A') s;

-- Every stored value has a normal form, which is its own: an index on it takes all of them.
CREATE TEMP TABLE nearly_dids AS SELECT DISTINCT ('at://' || a || p)::aturi AS u
FROM (SELECT d || c || m || e || i AS a FROM unnest('{did,DID,%64id,d%49d}'::text[]) d, unnest('{:,%3A,%3a,%253A}'::text[]) c, unnest('{plc,PLC,w%45b,m1,""}'::text[]) m,
		unnest('{:,%3A,3A,%7E}'::text[]) e, unnest('{abc,aB%2fc%7e,%25253A,""}'::text[]) i) s, unnest('{"",/A.B.c/%2E%2E/x}'::text[]) p
WHERE a !~* '^did:|:$';
CREATE INDEX ON nearly_dids ((~u));
SELECT count(*) > 1000 AS many, bool_and(~(~u) = ~u) AS own, bool_and(u ~= ~u) AS equivalent, bool_and(aturi_normalize(u) = ~u) AS same, bool_and((~u)::text::aturi = ~u) AS valid,
	   bool_and(aturi_did(~u) IS NOT DISTINCT FROM did_normalize(aturi_did(~u))) AS did FROM nearly_dids;
SELECT u, ~u AS normal FROM unnest('{at://did%3Aplc3Aabc, at://did%3aPLC%3aABC, at://did%3Aplc%3AABC, at://%64id:Plc, at://did%3AA%61}'::aturi[]) u;
-- Text that need not be valid is judged more strictly, in what is left out as well (A-10).
SELECT aturi_normalize('at://did%3APLC%3Aabc');
SELECT aturi_normalize('at://computer/>om.example.fooBar/..?a=b');
-- The normal form of a DID is that of the URI's authority.
SELECT d, did_normalize(d), did_normalize(d) = aturi_did(~aturi(d)) AS same, did_normalize(did_normalize(d)) = did_normalize(d) AS own
FROM unnest('{did:web:A%3a1, did:web:a%253A1, did:web:%41%7e, did:key:zQ%2f%61, did:plc:44YBARD66VV44ZKSJE25O7DZ}'::did[]) d;

-- NOSH: N-02, N-03, N-07, N-08
SELECT u, noshuri_authority_kind(u) AS kind, noshuri_is_lexicon(u) AS lexicon, noshuri_is_strict(u) AS strict, noshuri_is_record(u) AS record, ~u AS normal
FROM unnest('{nosh://1673/nosh.server.buyer.address/3jwdwj2ctlk26, nosh://0xb794f5ea0ba39494ce839613fffba74279579268/nosh.server.buyer.address/3jwdwj2ctlk26,
	nosh://foo.com/com.example.foo/123, nosh://foo.com/example/123, nosh://computer, nosh://example.com:3000, nosh://1673, nosh://0, nosh://01673, nosh://-1, nosh://1673.5,
	nosh://0xB794F5EA0BA39494CE839613FFFBA74279579268, nosh://0XB794F5EA0BA39494CE839613FFFBA74279579268, nosh://0xb794f5ea0ba39494ce839613fffba7427957926,
	nosh://did:plc:44ybard66vv44zksje25o7dz, nosh://did:1673, nosh://DID:PLC:x~y, nosh://did:web:a%253A1, nosh://1673/COM.Example.foo/123, nosh://1673/com.example.foo/123?x#/y,
	nosh://115792089237316195423570985008687907853269984665640564039457584007913129639935,
	nosh://115792089237316195423570985008687907853269984665640564039457584007913129639936}'::noshuri[]) u;
SELECT u, noshuri_authority(u) AS authority, noshuri_address(u) AS address, noshuri_agent(u) AS agent, noshuri_name(u) AS name, noshuri_kind(u) AS kind
FROM unnest('{nosh://1673/a.b.c/d, nosh://0xb794f5ea0ba39494ce839613fffba74279579268, nosh://Foo.com/a.b.c, nosh://computer,
	nosh://115792089237316195423570985008687907853269984665640564039457584007913129639935}'::noshuri[]) u;
SELECT u, noshuri_path(u) AS path, noshuri_segments(u) AS segments, noshuri_collection(u) AS collection, noshuri_rkey(u) AS rkey, noshuri_tid(u) AS tid,
	   noshuri_query(u) AS query, noshuri_fragment(u) AS fragment, noshuri_pointer(u) AS pointer, noshuri_strip(u) AS strip, noshuri_repo(u) AS repo
FROM unnest('{nosh://1673/a.b.c/3jwdwj2ctlk26?x#/y}'::noshuri[]) u;
SELECT noshuri_normalize('NOSH://Foo.com//a.b.C/'), 'nosh://FOO.com'::noshuri ~= 'nosh://foo.com' AS equivalent;

-- Sizes as stored, header included
CREATE TEMP TABLE sizes (u aturi, d did, r recordkey, c cidlink, n noshuri);
INSERT INTO sizes VALUES ('at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26', 'did:plc:44ybard66vv44zksje25o7dz',
	'3jwdwj2ctlk26', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', 'nosh://1673/nosh.server.buyer.address/3jwdwj2ctlk26'),
	('at://did:plc:44ybard66vv44zksje25o7dz/com.example.collection/3jwdwj2ctlk26', NULL, NULL, NULL, NULL);
SELECT pg_column_size(u) AS u, pg_column_size(d) AS d, pg_column_size(r) AS r, pg_column_size(c) AS c, pg_column_size(n) AS n FROM sizes;
