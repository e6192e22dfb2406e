-- noshuri: NOSH URIs (type_uri.c, type_noshuri.c, uri_support.c)

--@include type_modified.sql.in TYPE=noshuri STORAGE=extended
COMMENT ON TYPE noshuri IS 'NOSH URI';

-- Order and equality: see compare.c.

--@include order_own.sql.in TYPE=noshuri ORDER=uri
--@include equality.sql.in TYPE=noshuri EQUAL=bytes
--@include operators.sql.in TYPE=noshuri PREFIX=noshuri CLASS=noshuri EQUALIMAGE=btequalimage
--@include text_casts.sql.in TYPE=noshuri

--@include type_uri.sql.in TYPE=noshuri SCHEME=NOSH

-- Authorities of this scheme.

CREATE FUNCTION noshuri_authority_kind(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_authority_kind' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_authority_kind(noshuri) IS 'the kind of the authority: address, agent, name';

CREATE FUNCTION noshuri_address(noshuri) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_address' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_address(noshuri) IS 'the authority when it is an address';

CREATE FUNCTION noshuri_agent(noshuri) RETURNS numeric
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_agent' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_agent(noshuri) IS 'the authority when it is an agent identifier';

CREATE FUNCTION noshuri_name(noshuri) RETURNS handle
	AS 'MODULE_PATHNAME', 'atp_pg_noshuri_name' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION noshuri_name(noshuri) IS 'the authority when it is a name';
