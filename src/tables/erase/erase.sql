/*
 * src/tables/erase: erasing, blocking and hiding an account.
 */

CREATE PROCEDURE atproto.erase(did @extschema@.did, block boolean DEFAULT false, directory boolean DEFAULT false, target name DEFAULT NULL)
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_erase';
COMMENT ON PROCEDURE atproto.erase(@extschema@.did, boolean, boolean, name) IS 'forget an account: remove its rows from the tables of all targets, or of one, that the caller may write, and from the tables of the extension; block: and make no row of the account from now on (atproto.blocked_account); directory: also its operations in the log of a did:plc directory; commits now and then, and reports the removed rows';
CREATE FUNCTION atproto.account_traces(did @extschema@.did, OUT place text, OUT object text, OUT rows bigint, OUT detail text) RETURNS SETOF record
    LANGUAGE c STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_account_traces';
COMMENT ON FUNCTION atproto.account_traces(@extschema@.did) IS 'where this database still has an account: rows of tables, counted with the rights of the caller, and places outside of the tables with copies of rows; reads the tables of events, labels and messages as a whole';
CREATE FUNCTION atproto.erasure(OUT is_data boolean, OUT relation text, OUT columns text, OUT treatment text, OUT why text) RETURNS SETOF record
    LANGUAGE c IMMUTABLE STRICT SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_erasure';
COMMENT ON FUNCTION atproto.erasure() IS 'the columns that can hold an account, and whether erase() removes their rows; is_data: a data table of each target, else a table of schema atproto; columns: * for all; treatment: erased; directory, erased with the parameter directory; kept, may name the account; none, cannot hold an account';
REVOKE ALL ON PROCEDURE atproto.erase(@extschema@.did, boolean, boolean, name) FROM PUBLIC;
CREATE FUNCTION atproto.unblock(did @extschema@.did, target name DEFAULT NULL) RETURNS boolean
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_unblock';
COMMENT ON FUNCTION atproto.unblock(@extschema@.did, name) IS 'let an account in again that erase() has blocked, in a target or in all targets that the caller may write; false: the account was not blocked there';
REVOKE ALL ON FUNCTION atproto.unblock(@extschema@.did, name), atproto.account_traces(@extschema@.did) FROM PUBLIC;
CREATE FUNCTION atproto.hide(did @extschema@.did, target name DEFAULT NULL) RETURNS boolean
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_hide';
COMMENT ON FUNCTION atproto.hide(@extschema@.did, name) IS 'hide an account, whatever the network says of it, in all targets, or in one, that the caller may write: its rows stay, and change with its events, but visible_record and visible_link leave them out, and no repository or proof is given out; false: the account was hidden there already, or is blocked. Experimental.';
CREATE FUNCTION atproto.unhide(did @extschema@.did, target name DEFAULT NULL) RETURNS boolean
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_unhide';
COMMENT ON FUNCTION atproto.unhide(@extschema@.did, name) IS 'show an account again that hide() has hidden, as it is now, in all targets, or in one, that the caller may write; false: the account was not hidden there. Experimental.';
REVOKE ALL ON FUNCTION atproto.hide(@extschema@.did, name), atproto.unhide(@extschema@.did, name) FROM PUBLIC;
