-- Soft errors: PostgreSQL 16 and later.  Before, there is nothing to test.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
-- Both branches print the same, so that there is one expected output.
SELECT current_setting('server_version_num')::int >= 160000 AS has_soft_errors \gset
\if :has_soft_errors
CREATE FUNCTION pg_temp.valid(input text, type text) RETURNS boolean LANGUAGE sql AS
	'SELECT pg_input_is_valid(input, type)';
CREATE FUNCTION pg_temp.detail(input text, type text) RETURNS text LANGUAGE sql AS
	'SELECT sql_error_code || '' '' || detail FROM pg_input_error_info(input, type)';
\else
CREATE FUNCTION pg_temp.detail(input text, type text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	detail text;
BEGIN
	EXECUTE format('SELECT %L::%s', input, type);
	RETURN NULL;
EXCEPTION WHEN invalid_text_representation THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || detail;
END $$;
CREATE FUNCTION pg_temp.valid(input text, type text) RETURNS boolean LANGUAGE sql AS
	'SELECT pg_temp.detail(input, type) IS NULL';
\endif
SELECT type, input, pg_temp.valid(input, type) AS valid, pg_temp.detail(input, type) AS error
FROM (VALUES
	('did', 'did:plc:abc'), ('did', 'did:plc'), ('did(blessed)', 'did:key:abc'),
	('handle', 'a.b'), ('handle', 'a'),
	('nsid', 'a.b.c'), ('nsid', 'a.b'),
	('recordkey', 'self'), ('recordkey', 'a/b'), ('recordkey(tid)', 'self'), ('recordkey(strict)', 'a:b'),
	('atproto.tid', '2222222222222'), ('atproto.tid', 'z'),
	('cidlink', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'), ('cidlink', 'b'),
	('cidlink(blessed)', 'bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi'),
	('aturi', 'at://a'), ('aturi', 'at://a/'), ('aturi(lexicon)', 'at://a'), ('aturi(strict)', 'at://A.b'),
	('aturi(record)', 'at://a.b'),
	('noshuri', 'nosh://1'), ('noshuri', 'at://1'), ('noshuri(strict)', 'nosh://a.b'),
	('dagcbor', '{"a": 1}'), ('dagcbor', '{"a": 1'), ('dagcbor', '\xa0'), ('dagcbor', '\xz0'), ('dagcbor', '\xa1')) v (type, input);

-- Texts that never fail, on all versions; datetimes, which no type of ours stands for
SELECT type, try_did(v), try_handle(v), try_nsid(v), try_recordkey(v) AS rkey, try_tid(v), try_cidlink(v) IS NOT NULL AS cid, try_aturi(v), try_noshuri(v)
FROM (VALUES ('did', 'did:plc:abc'), ('handle', 'A.b'), ('nsid', 'a.b.c'), ('tid', '2222222222222'), ('recordkey', 'self'),
	('cidlink', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'), ('aturi', 'at://a'), ('noshuri', 'nosh://1'), ('none', ''), ('none', 'é'),
	('long', repeat('a', 100000))) t (type, v);
SET TimeZone = 'America/St_Johns';
SELECT v, try_datetime(v) AT TIME ZONE 'UTC' AS utc FROM unnest('{1985-04-12T23:20:50.123Z,1985-04-12T23:20:50.123456789-02:30,0000-01-01T00:00:00Z,9999-12-31T23:59:59Z,
	now,infinity,epoch,1985-04-12,1985-04-12T23:20:50,1985-04-12 23:20:50Z,1985-04-12T23:20:50z,2023-02-29T00:00:00Z,""}'::text[]) v;
-- In all time zones the times are in the years 1 to 9999, or programs that know only these years could not read them.
SELECT v, to_char(try_datetime(v) AT TIME ZONE 'Etc/GMT+12', 'YYYY-MM-DD HH24:MI:SS.US BC') AS west, to_char(try_datetime(v) AT TIME ZONE 'Etc/GMT-14', 'YYYY-MM-DD HH24:MI:SS.US BC') AS east
FROM unnest('{0001-01-01T23:59:59.999999Z,0001-01-02T00:00:00Z,0001-01-02T00:00:00+00:01,0001-01-01T00:00:00-23:59,
	9999-12-30T23:59:59.999999Z,9999-12-30T23:59:60Z,9999-12-31T00:00:00Z,9999-12-31T23:58:59+23:59,9999-12-30T23:59:00-00:01}'::text[]) v;

-- An index on each of them, over texts that are anything
CREATE TEMP TABLE anything AS SELECT v FROM unnest(ARRAY['did:plc:abc', 'a.b', 'a.b.c', '2222222222222', 'self', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a', 'at://a', 'nosh://1', '2023-02-28T00:00:00Z', '', 'é', NULL]) v;
CREATE FUNCTION pg_temp.by_index(type text, v text, OUT texts text, OUT indexed boolean) LANGUAGE plpgsql AS $$
DECLARE
	condition text := format('WHERE try_%s(v) = %L', type, v);
	plan json;
BEGIN
	EXECUTE format('CREATE INDEX ON anything (try_%s(v))', type);
	EXECUTE 'EXPLAIN (FORMAT json) SELECT FROM anything ' || condition INTO plan;
	EXECUTE 'SELECT string_agg(v, '' '') FROM anything ' || condition INTO texts;
	indexed := plan -> 0 -> 'Plan' ->> 'Index Cond' ~ ('^\(try_' || type);
END $$;
SET enable_seqscan = off; SET enable_bitmapscan = off;
SELECT type, f.* FROM (VALUES ('did', 'did:plc:abc'), ('handle', 'A.B'), ('nsid', 'a.b.c'), ('tid', '2222222222222'), ('recordkey', 'self'), ('cidlink', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'),
	('aturi', 'at://a'), ('noshuri', 'nosh://1'), ('datetime', '2023-02-27T20:30:00-03:30')) t (type, v), pg_temp.by_index(type, v) f;
