-- Functions of did, handle, nsid, recordkey, tid and cidlink.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
SET TimeZone = 'UTC';
\pset null '(null)'
\set VERBOSITY default

-- did: I-22, I-23, I-24
SELECT d, did_method(d), did_identifier(d), did_is_blessed(d), did_normalize(d)
FROM unnest('{did:plc:44ybard66vv44zksje25o7dz, did:plc:44YBARD66VV44ZKSJE25O7DZ, did:web:Localhost%3A1234,
	did:key:zQ3sh, did:method:val:two}'::did[]) d;

-- handle: I-12, I-13
SELECT h, handle_tld_allowed(h)
FROM unnest('{Jay.Bsky.Social, handle.invalid, a.local, a.b.onion, a.test, x.example}'::handle[]) h;
-- at-identifiers: I-30
SELECT s, at_identifier_is_valid(s)
FROM unnest('{did:plc:abc, foo.com, FOO.com, did:thing.test, email@example.com, @handle, blah, ""}'::text[]) s;

-- nsid: I-04, I-05, I-06, D10
SELECT n, nsid_authority(n), nsid_name(n), nsid_normalize(n), nsid_authority_is_resolvable(n)
FROM unnest('{com.atproto.sync.getRecord, COM.Example.fooBar, a-0.b-1.c}'::nsid[]) n;
SELECT nsid_authority_is_resolvable((repeat(repeat('a', 62) || '.', 5) || 'b')::nsid);
SELECT n, p, nsid_matches(n, p)
FROM unnest('{app.bsky.feed.post, app.bskyx.a, chat.bsky.convo.x}'::nsid[]) n,
	 unnest('{app.bsky.*, app.bsky.feed.*, app.bsky.feed.post, *, app.*}'::text[]) p;
SELECT nsid_matches('a.b.c', 'app.bsky*');
SELECT nsid_matches('a.b.c', '*.feed');
SELECT nsid_matches('a.b.c', '');

-- recordkey: K-07, and what a TID is
SELECT k, t, recordkey_matches(k, t)
FROM unnest('{3jui7kd54zh2y, self, app.bsky.feed.post, a:b}'::recordkey[]) k,
	 unnest('{any, tid, nsid, literal:self}'::text[]) t;
SELECT recordkey_matches('self', 'literal:');
SELECT recordkey_matches('self', 'uuid');
SELECT k, recordkey_tid(k), pg_column_size(k) FROM unnest('{3jui7kd54zh2y, self}'::recordkey[]) k;
SELECT '3jui7kd54zh2y'::atproto.tid::recordkey, 'app.bsky.feed.post'::nsid::recordkey;

-- tid: T-03 to T-08, D3
SELECT t, tid_timestamp(t), tid_micros(t), tid_clock_id(t), tid_is_canonical(t)
FROM unnest('{2222222222222, 2222222222223, 22222222222zz, 2222222222322, 22bzzzzzzzzzz, bzzzzzzzzzz22,
	bzzzzzzzzzzzz, c222222222222, jzzzzzzzzzzzz, 3jwdwj2ctlk26, 3jzfcijpj2z2a, 7777777777777, 3zzzzzzzzzzzz,
	3jui7kd54zh2y, 3ke6kg3wk2227}'::atproto.tid[]) t;
SELECT t, t::bigint, t::bigint::atproto.tid
FROM unnest('{2222222222222, 2222222222223, bzzzzzzzzzzzz, 3jwdwj2ctlk26, 3ke6kg3wk2227}'::atproto.tid[]) t;
SELECT 'c222222222222'::atproto.tid::bigint;
SELECT (-1)::bigint::atproto.tid;
SELECT atproto.tid('2023-05-22 21:40:19.774Z', 4), atproto.tid('1970-01-01Z', 0),
	   atproto.tid('2255-06-05 23:47:34.740991Z', 1023);
SELECT atproto.tid('1969-12-31 23:59:59.999999Z', 0);
SELECT atproto.tid('2255-06-05 23:47:34.740992Z', 0);
SELECT atproto.tid('2023-01-01Z', 1024);
SELECT atproto.tid('2023-01-01Z', -1);
SELECT atproto.tid('infinity', 0);
SELECT tid_floor('2023-05-22 21:40:19.774Z'), tid_ceil('2023-05-22 21:40:19.774Z'),
	   tid_floor('-infinity'), tid_ceil('infinity');
-- bounds of times that no TID holds: conditions with them do not fail
SELECT tid_floor('1960-01-01Z'), tid_ceil('1960-01-01Z'), tid_floor('2300-01-01Z'), tid_ceil('2300-01-01Z'), tid_ceil('-infinity'), tid_floor('infinity');
SELECT tid_ceil('infinity') = max(t) AS last, bool_and(t BETWEEN tid_floor(f) AND tid_ceil(c)) AS all
FROM unnest('{2222222222222, 3jwdwj2ctlk26, bzzzzzzzzzzzz, c222222222222, jzzzzzzzzzzzz}'::atproto.tid[]) t,
	(VALUES ('-infinity'::timestamptz, 'infinity'::timestamptz), ('1960-01-01Z', '2300-01-01Z')) v (f, c);
-- the bounds do not fall when the time rises
SELECT bool_and(tid_floor(a) <= tid_floor(b) AND tid_ceil(a) <= tid_ceil(b) AND tid_floor(a) <= tid_ceil(a)) AS rising
FROM (SELECT t AS b, lag(t) OVER (ORDER BY t) AS a FROM unnest('{-infinity, 4000-01-01 BC, 1969-12-31 23:59:59.999999Z, 1970-01-01Z, 1970-01-01 00:00:00.000001Z,
	2023-05-22Z, 2255-06-05 23:47:34.740991Z, 2255-06-05 23:47:34.740992Z, 294276-01-01Z, infinity}'::timestamptz[]) t) s;
SELECT '3jwdwj2ctlk26'::atproto.tid BETWEEN tid_floor('2023-05-22 21:40:19.774Z') AND tid_ceil('2023-05-22 21:40:19.774Z') AS within;
-- compared without sign (D3)
SELECT 'bzzzzzzzzzzzz'::atproto.tid < 'c222222222222'::atproto.tid AS less,
	   max(t), min(t) FROM unnest('{bzzzzzzzzzzzz, c222222222222, 3jwdwj2ctlk26}'::atproto.tid[]) t;

-- tid_generate: T-09; each is greater than the one before, and canonical; its time counts microseconds (T-10)
SELECT count(*), count(DISTINCT t) AS different, bool_and(t > before) AS increasing,
	   bool_and(tid_is_canonical(t)) AS canonical,
	   bool_and(tid_timestamp(t) BETWEEN now() - interval '1 minute' AND now() + interval '1 minute') AS about_now
FROM (SELECT t, coalesce(lag(t) OVER (ORDER BY n), '2222222222222') AS before
	  FROM (SELECT n, tid_generate() AS t FROM generate_series(1, 20000) n) s) s;

-- cidlink: B-40, B-41, B-44, D11
SELECT c, cidlink_codec(c), cidlink_digest(c), cidlink_is_blessed(c), pg_column_size(c), c::bytea
FROM unnest('{bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a,
	bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi}'::cidlink[]) c;
SELECT cidlink_of('\xa0'), cidlink_of('\xa0', 'raw'), cidlink_digest(cidlink_of('\xa0')) = sha256('\xa0') AS same;
SELECT cidlink_codec(cidlink_of('\xa0', 'raw'));
SELECT cidlink_of('\xa0', 'dag-pb');
SELECT cidlink_of('\xa0')::bytea::cidlink = cidlink_of('\xa0') AS same;
SELECT '\x0155122000'::bytea::cidlink;
SELECT '\x'::bytea::cidlink;
SELECT s, is_cid_syntax(s)
FROM unnest('{bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a, QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR,
	zQmXg9P, bafybeig, short, "with space ok"}'::text[]) s;

-- strongref: A-41
SELECT (s).uri, (s).cid FROM (SELECT ROW('at://foo.com/a.b.c/d',
	'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a')::strongref AS s) s;

-- type modifiers: checked on input and by casts, shown, and surviving
CREATE TABLE modified (
	a did(blessed), b cidlink(blessed), c recordkey('any'), d recordkey(tid), e recordkey(nsid), f recordkey(strict),
	g recordkey('literal:self'), h aturi(lexicon), i aturi(strict), j aturi(record), k noshuri(lexicon), l noshuri(strict),
	m noshuri(record));
\d modified
INSERT INTO modified (a) VALUES ('did:web:a.b');
INSERT INTO modified (a) VALUES ('did:key:a.b');
INSERT INTO modified (a) SELECT d FROM unnest('{did:key:a.b}'::did[]) d;
INSERT INTO modified (b) VALUES ('bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi');
INSERT INTO modified (c) VALUES ('a:b');
INSERT INTO modified (d) VALUES ('self');
INSERT INTO modified (e) VALUES ('self');
INSERT INTO modified (f) VALUES ('a:b');
INSERT INTO modified (g) VALUES ('Self');
INSERT INTO modified (h) VALUES ('at://foo.com/a.b.c/d#/x');
INSERT INTO modified (i) VALUES ('at://FOO.com/a.b.c/d');
INSERT INTO modified (j) VALUES ('at://foo.com/a.b.c/d');
INSERT INTO modified (k) VALUES ('nosh://computer');
INSERT INTO modified (l) VALUES ('nosh://foo.com');
INSERT INTO modified (m) VALUES ('nosh://1673/a.b.c');
INSERT INTO modified VALUES ('did:plc:abc', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', 'any',
	'3jui7kd54zh2y', 'a.b.c', 'a', 'self', 'at://FOO.com/a.b.c', 'at://did:web:a.b/a.b.c', 'at://did:x:y/a.b.c/d',
	'nosh://foo.com/a.b.c', 'nosh://1673', 'nosh://1673/a.b.c/d');
SELECT count(*) FROM modified;
CREATE TABLE broken (a did(wrong));
CREATE TABLE broken (a aturi(lexicon, strict));
CREATE TABLE broken (a recordkey('literal:other'));
SELECT 'at://foo.com/x'::aturi::aturi(lexicon);
SELECT 'did:key:x'::did::did(blessed);
SELECT 'self'::recordkey::recordkey(tid);
SELECT 'bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi'::cidlink::cidlink(blessed);
SELECT 'nosh://foo.com'::noshuri::noshuri(strict);
DROP TABLE modified;
