-- Repositories and proofs of records, given out as CAR files with the rights of the caller (src/tables/out).

CREATE FUNCTION atproto.repo_car(did @extschema@.did, target name DEFAULT 'atproto') RETURNS bytea
    LANGUAGE c STABLE STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_repo_car';
COMMENT ON FUNCTION atproto.repo_car(@extschema@.did, name) IS 'the repository as a CAR file: the signed commit, the nodes of the tree and the records, each block once, a node before what it points to; an error unless the records are exactly those of the commit. Experimental.';
CREATE FUNCTION atproto.repo_car_chunks(did @extschema@.did, target name DEFAULT 'atproto') RETURNS SETOF bytea
    LANGUAGE c STABLE STRICT ROWS 100 SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_repo_car_chunks';
COMMENT ON FUNCTION atproto.repo_car_chunks(@extschema@.did, name) IS 'the file of repo_car() in pieces of about 256 kB, in their order, for repositories of any size. Experimental.';
CREATE FUNCTION atproto.record_proof(did @extschema@.did, collection @extschema@.nsid, rkey @extschema@.recordkey, target name DEFAULT 'atproto') RETURNS bytea
    LANGUAGE c STABLE STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_record_proof';
COMMENT ON FUNCTION atproto.record_proof(@extschema@.did, @extschema@.nsid, @extschema@.recordkey, name) IS 'a proof that the repository has the record, or has no record there: a CAR file with the signed commit, the nodes on the way and the record, as com.atproto.sync.getRecord answers; see verify_record_proof(). Experimental.';
