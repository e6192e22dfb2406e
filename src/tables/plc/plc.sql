-- The log of a did:plc directory (src/tables/plc).

CREATE FUNCTION atproto.plc_key(did @extschema@.did, at timestamptz DEFAULT NULL, target name DEFAULT 'atproto') RETURNS text
	AS 'MODULE_PATHNAME', 'atp_plc_key'
	LANGUAGE C STABLE;
COMMENT ON FUNCTION atproto.plc_key(@extschema@.did, timestamptz, name) IS
	'signing key of an account at a time, as did:key, by the chain that holds now; without a time the present key; NULL before the genesis, after a tombstone, and where the log has no key of k256 or p256';
