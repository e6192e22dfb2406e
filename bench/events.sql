-- A day of the network, made in SQL: the view simulated_record has :events new
-- records, numbered, of :events / 5 accounts, in the order of their times.  Of 50 records
-- 36 are likes, 6 posts, 5 reposts and 3 follows.  Some accounts do more than
-- others, and some posts are liked more.  Every value is a function of the
-- record's number: the same :events is always the same data.
CREATE FUNCTION fraction(n bigint, salt bigint) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN (hashint8extended(n, salt) & 4503599627370495) / 4503599627370496.0::float8;
CREATE FUNCTION base32(n bigint, salt bigint) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN right((hashint8extended(n, salt) & 9223372036854775807)::atproto.tid::text, 12);
CREATE FUNCTION account(i bigint) RETURNS did LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ('did:plc:' || base32(i, 1) || base32(i, 2))::did;
CREATE FUNCTION author(n bigint) RETURNS did LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN account((:events / 5 * power(fraction(n, 3), 1.5))::bigint);
-- the time, 2026-01-01 and after, as the TID that is the key of record n
CREATE FUNCTION key(n bigint) RETURNS atproto.tid LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN ((1767225600000000 + ((n + fraction(n, 4) / 2) / :events * 86400000000)::bigint) * 1024 + n % 1024)::atproto.tid;
CREATE FUNCTION content(n bigint) RETURNS cidlink LANGUAGE sql IMMUTABLE PARALLEL SAFE
	RETURN cidlink_of(int8send(n));

CREATE VIEW simulated_record AS
SELECT n, author(n) AS did, ('app.bsky.' || CASE kind WHEN 'follow' THEN 'graph.' ELSE 'feed.' END || kind)::nsid AS collection,
	   key::recordkey AS rkey, content(n) AS cid, key AS rev,
	   jsonb_build_object('$type', 'app.bsky.' || CASE kind WHEN 'follow' THEN 'graph.' ELSE 'feed.' END || kind,
			'createdAt', to_char(tid_timestamp(key) AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"')) ||
	   CASE kind
			WHEN 'post' THEN jsonb_build_object('langs', '["en"]'::jsonb,
				'text', left(repeat(base32(n, 7) || ' ' || base32(n, 8) || ' ', 12), 10 + (290 * power(fraction(n, 9), 2))::int))
			WHEN 'follow' THEN jsonb_build_object('subject', account((:events / 5 * power(fraction(n, 10), 3))::bigint))
			ELSE jsonb_build_object('subject', jsonb_build_object('cid', content(post),
				'uri', aturi(author(post), 'app.bsky.feed.post'::nsid, key(post)::recordkey)))
	   END AS value
FROM generate_series(1::bigint, :events) n,
	LATERAL (SELECT CASE WHEN n <= 1000 OR n % 50 >= 44 THEN 'post' WHEN n % 50 < 36 THEN 'like'
					WHEN n % 50 < 41 THEN 'repost' ELSE 'follow' END AS kind,
				key(n) AS key,
				-- a post before, the later ones more often: number 49 of its 50
				(n / 50 * (1 - power(fraction(n, 5), 4) / 2))::bigint * 50 - 1 AS post
			 OFFSET 0) k;
