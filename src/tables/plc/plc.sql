-- The log of a did:plc directory (src/tables/plc).

CREATE FUNCTION atproto.plc_key(did @extschema@.did, at timestamptz DEFAULT NULL, target name DEFAULT 'atproto') RETURNS text
	AS 'MODULE_PATHNAME', 'atp_plc_key'
	LANGUAGE C STABLE;
COMMENT ON FUNCTION atproto.plc_key(@extschema@.did, timestamptz, name) IS
	'signing key of an account at a time, as did:key, by the chain that holds now: at the time of an operation the operation''s; without a time the present key; NULL before the genesis, after a tombstone, and where the log has no key of k256 or p256. Experimental.';

CREATE FUNCTION atproto.plc_log(did @extschema@.did, target name DEFAULT 'atproto', OUT n integer, OUT cid @extschema@.cidlink, OUT prev integer,
	OUT nullified_by integer, OUT signer integer, OUT created_at timestamptz, OUT seq bigint, OUT operation jsonb, OUT signed bytea)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_plc_log'
	LANGUAGE C STABLE STRICT ROWS 10;
COMMENT ON FUNCTION atproto.plc_log(@extschema@.did, name) IS
	'operations of an account in the order of the log; signer: which rotation key of prev has signed, from 0 (of a genesis, which of its own); signed: the DAG-CBOR of the operation, which has the CID; operation: the same as JSON. Experimental.';

CREATE FUNCTION atproto.plc_export(did @extschema@.did, target name DEFAULT 'atproto') RETURNS SETOF jsonb
	AS 'MODULE_PATHNAME', 'atp_plc_export'
	LANGUAGE C STABLE STRICT ROWS 10;
COMMENT ON FUNCTION atproto.plc_export(@extschema@.did, name) IS
	'operations of an account, each as the directory exports it at /export. Experimental.';

CREATE FUNCTION atproto.plc_audit(did @extschema@.did, target name DEFAULT 'atproto', OUT n integer, OUT cid @extschema@.cidlink, OUT problem text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_plc_audit'
	LANGUAGE C STABLE STRICT ROWS 1;
COMMENT ON FUNCTION atproto.plc_audit(@extschema@.did, name) IS
	'operations of an account whose row differs from what the signed operations say, judged anew from the first to the last: place, CID, signature, nullified operations; no row: all hold. Experimental.';
