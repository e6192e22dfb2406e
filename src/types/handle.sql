-- handle: domain names of accounts (handle.c)

CREATE TYPE handle;

CREATE FUNCTION handle_in(cstring) RETURNS handle
	AS 'MODULE_PATHNAME', 'atp_pg_handle_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION handle_in(cstring) IS 'I/O';

CREATE FUNCTION handle_out(handle) RETURNS cstring
	AS 'textout' LANGUAGE internal
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION handle_out(handle) IS 'I/O';

CREATE FUNCTION handle_recv(internal) RETURNS handle
	AS 'MODULE_PATHNAME', 'atp_pg_handle_recv' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION handle_recv(internal) IS 'I/O';

CREATE FUNCTION handle_send(handle) RETURNS bytea
	AS 'byteasend' LANGUAGE internal
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION handle_send(handle) IS 'I/O';

CREATE TYPE handle (
	INPUT = handle_in,
	OUTPUT = handle_out,
	RECEIVE = handle_recv,
	SEND = handle_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = main
);
COMMENT ON TYPE handle IS 'AT Protocol: handle, kept in lower case';

-- Order and equality: see compare.c.

--@include order_bytes.sql.in handle
--@include operators.sql.in handle

-- Predicates.

CREATE FUNCTION handle_tld_allowed(handle) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_handle_tld_allowed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION handle_tld_allowed(handle) IS 'is the top-level domain one that a real handle can have?';

CREATE FUNCTION at_identifier_is_valid(text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_at_identifier_is_valid' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION at_identifier_is_valid(text) IS 'is the text a DID or a handle?';

