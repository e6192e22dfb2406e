-- handle: domain names of accounts (type_handle.c)

--@include type_plain.sql.in TYPE=handle
COMMENT ON TYPE handle IS 'AT Protocol: handle, kept in lower case';

-- Order and equality: see compare.c.

--@include order_bytes.sql.in TYPE=handle
--@include equality.sql.in TYPE=handle EQUAL=bytes
--@include operators.sql.in TYPE=handle PREFIX=handle CLASS=handle EQUALIMAGE=btequalimage
--@include text_casts.sql.in TYPE=handle

-- Predicates.

CREATE FUNCTION handle_tld_allowed(handle) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_handle_tld_allowed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION handle_tld_allowed(handle) IS 'can a real handle have this top-level domain?';

CREATE FUNCTION at_identifier_is_valid(text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_at_identifier_is_valid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION at_identifier_is_valid(text) IS 'is the text a DID or a handle?';

