/*
 * src/process: grants for roles that read a target, or that have subscriptions of their own.
 */

CREATE FUNCTION atproto.grant_to(role name, target name, what text DEFAULT 'read') RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_grant_to';
COMMENT ON FUNCTION atproto.grant_to(name, name, text) IS 'grant a role the privileges to read a schema''s data tables (read), or to fill the schema by subscriptions (subscribe), also for later data tables and partitions; the caller can give only privileges that the caller may grant';
CREATE FUNCTION atproto.revoke_from(role name, target name, what text DEFAULT 'read') RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_revoke_from';
COMMENT ON FUNCTION atproto.revoke_from(name, name, text) IS 'take back the privileges of atproto.grant_to(); subscribe: also the functions, in the whole database';
REVOKE ALL ON FUNCTION atproto.grant_to(name, name, text), atproto.revoke_from(name, name, text) FROM PUBLIC;
