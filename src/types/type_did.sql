-- did: decentralized identifiers (type_did.c)

--@include type_modified.sql.in TYPE=did STORAGE=main
COMMENT ON TYPE did IS 'AT Protocol: decentralized identifier';

-- Order and equality: see compare.c.

--@include order_own.sql.in TYPE=did ORDER=did
--@include equality.sql.in TYPE=did EQUAL=bytes
--@include operators.sql.in TYPE=did PREFIX=did CLASS=did EQUALIMAGE=btequalimage
--@include text_casts.sql.in TYPE=did

-- Parts and normal form.

CREATE FUNCTION did_method(did) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_did_method' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_method(did) IS 'the method: plc, web, ...';

CREATE FUNCTION did_identifier(did) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_did_identifier' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_identifier(did) IS 'the part after the method';

CREATE FUNCTION did_is_blessed(did) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_did_is_blessed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_is_blessed(did) IS 'does the AT Protocol support the method (plc, web)?';

CREATE FUNCTION did_normalize(did) RETURNS did
	AS 'MODULE_PATHNAME', 'atp_pg_did_normalize' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_normalize(did) IS 'normal form: no needless escapes; did:plc and did:web in lower case';

-- Parts of all repositories.

CREATE FUNCTION did_slice(did, slices integer) RETURNS integer
	AS 'MODULE_PATHNAME', 'atp_pg_did_slice' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION did_slice(did, integer) IS 'the slice of the DID among so many slices, from 0: the remainder by which a table PARTITION BY HASH (did) places a row';
