/*
 * src/tables/base: accounts that are kept away.
 */

CREATE TABLE atproto.blocked_account (
    did @extschema@.did NOT NULL,
    target name,
    UNIQUE NULLS NOT DISTINCT (target, did)
);
COMMENT ON TABLE atproto.blocked_account IS 'accounts that erase() keeps away: no process makes a row of them in the target; unblock() removes the row';
COMMENT ON COLUMN atproto.blocked_account.did IS 'the account';
COMMENT ON COLUMN atproto.blocked_account.target IS 'schema of the tables; NULL: all targets of the database, also later ones';
-- A list of persons who want to be forgotten: only the owner of a schema sees and changes the schema's rows.
ALTER TABLE atproto.blocked_account ENABLE ROW LEVEL SECURITY;
CREATE POLICY target ON atproto.blocked_account FOR SELECT
    USING (EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = target AND pg_catalog.pg_has_role(n.nspowner, 'USAGE')));
SELECT pg_catalog.pg_extension_config_dump('atproto.blocked_account', '');

CREATE FUNCTION atproto_internal.blocks_changed() RETURNS trigger
    LANGUAGE c AS 'MODULE_PATHNAME', 'atp_blocks_changed';
COMMENT ON FUNCTION atproto_internal.blocks_changed() IS 'trigger: all processes read the blocked accounts again';
CREATE TRIGGER blocks_changed AFTER INSERT OR UPDATE OR DELETE OR TRUNCATE ON atproto.blocked_account
    FOR EACH STATEMENT EXECUTE FUNCTION atproto_internal.blocks_changed();
ALTER TABLE atproto.blocked_account ENABLE ALWAYS TRIGGER blocks_changed;
REVOKE ALL ON FUNCTION atproto_internal.blocks_changed() FROM PUBLIC;
