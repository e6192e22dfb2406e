/*
 * src/process: grants for roles that read a target, or that have subscriptions of their own.
 */

CREATE FUNCTION atproto.grant_to(role name, target name, what text DEFAULT 'read') RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_grant_to';
COMMENT ON FUNCTION atproto.grant_to(name, name, text) IS 'grant a role what reading a schema''s data tables needs (read), or what subscriptions of its own with this target need (subscribe), for later data tables and partitions, too; the caller can give only what the caller may grant';
CREATE FUNCTION atproto.revoke_from(role name, target name, what text DEFAULT 'read') RETURNS void
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_revoke_from';
COMMENT ON FUNCTION atproto.revoke_from(name, name, text) IS 'take back what atproto.grant_to() gives; subscribe: also the functions, which the role needs for other targets, too';
REVOKE ALL ON FUNCTION atproto.grant_to(name, name, text), atproto.revoke_from(name, name, text) FROM PUBLIC;
