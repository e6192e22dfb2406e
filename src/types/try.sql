-- Any text as a value of a type; NULL when the text is invalid (try.c).

--@include try.sql.in NAME=did TYPE=did
--@include try.sql.in NAME=handle TYPE=handle
--@include try.sql.in NAME=nsid TYPE=nsid
--@include try.sql.in NAME=recordkey TYPE=recordkey
--@include try.sql.in NAME=cidlink TYPE=cidlink
--@include try.sql.in NAME=aturi TYPE=aturi
--@include try.sql.in NAME=noshuri TYPE=noshuri
--@include try.sql.in NAME=tid TYPE=atproto.tid

CREATE FUNCTION try_datetime(text) RETURNS timestamptz
	AS 'MODULE_PATHNAME', 'atp_pg_try_datetime' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION try_datetime(text) IS 'a datetime of a Lexicon as timestamptz, with microseconds; NULL when the text is invalid, or the time is before 0001-01-02 or after 9999-12-30 (UTC)';
