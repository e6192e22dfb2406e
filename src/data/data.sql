-- The data model: DAG-CBOR, CAR files, event-stream frames (src/data).

CREATE FUNCTION dagcbor_to_jsonb(bytea) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_to_jsonb'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dagcbor_to_jsonb(bytea) IS
	'one DAG-CBOR value as jsonb, with {"$link": …} for links and {"$bytes": …} for bytes';

CREATE FUNCTION jsonb_to_dagcbor(jsonb) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_jsonb_to_dagcbor'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION jsonb_to_dagcbor(jsonb) IS
	'canonical DAG-CBOR of a jsonb value; the inverse of dagcbor_to_jsonb';

CREATE FUNCTION json_to_dagcbor(json) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_json_to_dagcbor'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION json_to_dagcbor(json) IS
	'canonical DAG-CBOR of a JSON text; accepts U+0000, which jsonb cannot hold; refuses repeated keys, of which jsonb would keep the last';

CREATE FUNCTION record_links(value jsonb, OUT path text, OUT target aturi) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_pg_record_links'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 2;
COMMENT ON FUNCTION record_links(jsonb) IS
	'the AT URIs and DIDs that are whole texts of a record, at any depth, with their paths: subject.uri, facets[].features[app.bsky.richtext.facet#mention].did; a DID is given as at://did';

CREATE FUNCTION dagcbor_links(value bytea, OUT path text, OUT target aturi) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_links'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 2;
COMMENT ON FUNCTION dagcbor_links(bytea) IS
	'as record_links(), for a record in DAG-CBOR';

-- Texts, hashtags and mentions of a record; any contents are accepted, since strangers write records.

CREATE FUNCTION record_text(value jsonb, path text) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_record_text'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION record_text(jsonb, text) IS
	'the text at a path of names in a record, such as reply.root.uri; NULL when no text is there';

CREATE FUNCTION record_text(value jsonb, path text, max_bytes integer) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_record_text_within'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION record_text(jsonb, text, integer) IS
	'the text at a path of names in a record; NULL when no text is there, or the text has more than max_bytes bytes';

CREATE FUNCTION record_hashtags(value jsonb) RETURNS text[]
	AS 'MODULE_PATHNAME', 'atp_pg_record_hashtags'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION record_hashtags(jsonb) IS
	'the hashtags in a record''s facets, and its tags: each once, in lower case, without #; only the first 256 are read';

CREATE FUNCTION record_mentions(value jsonb) RETURNS did[]
	AS 'MODULE_PATHNAME', 'atp_pg_record_mentions'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION record_mentions(jsonb) IS
	'the accounts mentioned in a record''s facets: each once; only the first 256 mentions are read';

CREATE FUNCTION car_roots(bytea) RETURNS cidlink[]
	AS 'MODULE_PATHNAME', 'atp_pg_car_roots'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION car_roots(bytea) IS 'roots in the header of a CAR file';

CREATE FUNCTION car_blocks(car bytea, OUT cid cidlink, OUT block bytea) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_pg_car_blocks'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000 ROWS 1000;
COMMENT ON FUNCTION car_blocks(bytea) IS 'blocks of a CAR file in file order, each checked against its CID';

CREATE FUNCTION car_records(car bytea, OUT uri aturi, OUT cid cidlink, OUT value jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_pg_car_records'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 5000 ROWS 1000;
COMMENT ON FUNCTION car_records(bytea) IS
	'records of a repository export in the order of their paths; value is NULL where the record is invalid or jsonb cannot hold it';

CREATE FUNCTION atproto.frame(frame bytea, OUT op integer, OUT t text, OUT payload jsonb)
	AS 'MODULE_PATHNAME', 'atp_pg_frame'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION atproto.frame(bytea) IS
	'header and payload of an event-stream frame; payload is NULL when jsonb cannot hold it';

CREATE FUNCTION atproto.frame_records(frame bytea, OUT action text, OUT uri aturi,
		OUT cid cidlink, OUT value jsonb) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_pg_frame_records'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000 ROWS 2;
COMMENT ON FUNCTION atproto.frame_records(bytea) IS
	'operations of a #commit frame, whose blocks are checked; value is NULL after a delete, and where the record is invalid or jsonb cannot hold it';

CREATE FUNCTION atproto.verify_commit(blocks bytea, key text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_verify_commit'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION atproto.verify_commit(bytea, text) IS
	'is the commit of a CAR file signed by this key (did:key or Multikey)?';

CREATE FUNCTION atproto.verify_label(label jsonb, key text) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_verify_label'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 100;
COMMENT ON FUNCTION atproto.verify_label(jsonb, text) IS
	'is the label signed by this key (did:key or Multikey)?';

CREATE FUNCTION atproto.plc_check(log jsonb, OUT n integer, OUT did did, OUT cid cidlink, OUT kind text,
	OUT created_at timestamptz, OUT verdict text, OUT nullified_by integer, OUT reason text, OUT detail text)
	RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_pg_plc_check'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10000 ROWS 10;
COMMENT ON FUNCTION atproto.plc_check(jsonb) IS
	'the log of a did:plc account, as a directory answers /did:plc:…/log/audit, judged entry by entry without a network: verdict is valid, nullified (then nullified_by is the row of the recovery), or refused with a reason. Experimental.';

CREATE FUNCTION atproto.plc_state(operation bytea, OUT key text, OUT label_key text, OUT server text, OUT handle text, OUT gone boolean)
	AS 'MODULE_PATHNAME', 'atp_pg_plc_state'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION atproto.plc_state(bytea) IS
	'what a signed operation (DAG-CBOR) says of its account: signing keys, server, claimed handle, as written, whether or not they are keys, addresses or handles; gone: a tombstone; all NULL: no operation. Experimental.';

CREATE FUNCTION atproto.plc_json(operation bytea) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'atp_pg_plc_json'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION atproto.plc_json(bytea) IS
	'a signed operation (DAG-CBOR) as JSON: not by the data model of records, so "$link" is a key like others; NULL: no operation. Experimental.';

CREATE FUNCTION atproto.plc_texts(packed bytea) RETURNS integer[]
	AS 'MODULE_PATHNAME', 'atp_pg_plc_texts'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION atproto.plc_texts(bytea) IS 'ids of the rows of plc_text that a packed operation refers to, in their order. Experimental.';

CREATE FUNCTION atproto.plc_unpack(packed bytea, prev cidlink, texts text[]) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_plc_unpack'
	LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION atproto.plc_unpack(bytea, cidlink, text[]) IS
	'the signed operation (DAG-CBOR) that was packed into plc_operation.packed; prev: CID of the operation before, without which the reference to it is empty; texts: those of plc_texts(); NULL: not a packed operation, or a text is missing. Experimental.';

CREATE FUNCTION atproto.invert(blocks bytea, ops jsonb) RETURNS cidlink
	AS 'MODULE_PATHNAME', 'atp_pg_invert'
	LANGUAGE C IMMUTABLE STRICT PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION atproto.invert(bytea, jsonb) IS
	'root of the tree before a commit: the operations are undone on the nodes in the CAR file; NULL when needed nodes are missing';

-- The tree's root, which a repository's commit signs, computed from the records.
CREATE FUNCTION atproto_internal.repo_root_add(internal, text, cidlink) RETURNS internal
	AS 'MODULE_PATHNAME', 'atp_pg_repo_root_add'
	LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION atproto_internal.repo_root_add(internal, text, cidlink) IS 'adds a record: a part of repo_root()';

CREATE FUNCTION atproto_internal.repo_root_end(internal) RETURNS cidlink
	AS 'MODULE_PATHNAME', 'atp_pg_repo_root_end'
	LANGUAGE C IMMUTABLE PARALLEL SAFE COST 10;
COMMENT ON FUNCTION atproto_internal.repo_root_end(internal) IS 'completes the tree: a part of repo_root()';

CREATE AGGREGATE atproto.repo_root(path text, cid cidlink) (
	SFUNC = atproto_internal.repo_root_add,
	STYPE = internal,
	SSPACE = 70000,
	FINALFUNC = atproto_internal.repo_root_end,
	FINALFUNC_MODIFY = READ_WRITE,
	PARALLEL = SAFE
);
COMMENT ON AGGREGATE atproto.repo_root(text, cidlink) IS
	'root of the tree of a repository with these records, which the commit signs as data; paths (collection/rkey) must be in bytewise order; NULL when no repository can have these records';

CREATE FUNCTION atproto.record_fits(cid cidlink, value jsonb, raw bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_record_fits'
	LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION atproto.record_fits(cidlink, jsonb, bytea) IS
	'do value and bytes (raw) of a record agree with its CID? A NULL is not compared; false if both are NULL';

CREATE FUNCTION atproto.commit_block(did did, rev atproto.tid, data cidlink, sig bytea, kept bytea) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_commit_block'
	LANGUAGE C IMMUTABLE PARALLEL SAFE COST 5;
COMMENT ON FUNCTION atproto.commit_block(did, atproto.tid, cidlink, bytea, bytea) IS
	'the block of a repository''s last commit, made of columns of its row in table repo; kept: the column commit_block; NULL: a column is null, or the commit was too large to be kept';

CREATE FUNCTION atproto.verify_record_proof(car bytea, did did, collection nsid, rkey recordkey, key text,
		OUT answer text, OUT why text, OUT rev atproto.tid, OUT cid cidlink, OUT value jsonb)
	AS 'MODULE_PATHNAME', 'atp_pg_verify_record_proof'
	LANGUAGE C IMMUTABLE PARALLEL SAFE COST 1000;
COMMENT ON FUNCTION atproto.verify_record_proof(bytea, did, nsid, recordkey, text) IS
	'what a CAR file (of record_proof(), com.atproto.sync.getRecord or getRepo) proves of a record, without a network; key: the account''s (did:key or Multikey); answer is there, absent, or no proof, never null: then why has the reason; rev, cid and value are proven; value is NULL where the record is invalid or jsonb cannot hold it. Experimental.';
