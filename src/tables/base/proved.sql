/*
 * src/tables/base: sets of collections, which the column "proved" of the data table repo names.
 */

CREATE TABLE atproto.proved_set (
    target name NOT NULL,
    id bigint NOT NULL
        CHECK (id >= -1),
    collections text[] NOT NULL,
    PRIMARY KEY (target, id)
);
COMMENT ON TABLE atproto.proved_set IS 'sets of collections that repo.proved names: each filter that a subscription of the target has had. Only the extension writes the rows';
COMMENT ON COLUMN atproto.proved_set.target IS 'schema of the tables';
COMMENT ON COLUMN atproto.proved_set.id IS 'number of the set, which follows from the collections; 0: all collections; -1: none, which repo.proved shows as NULL';
COMMENT ON COLUMN atproto.proved_set.collections IS 'collections and patterns of the set, sorted, none within a second one; {*}: all';
-- only the table's owner writes
ALTER TABLE atproto.proved_set ENABLE ROW LEVEL SECURITY;
CREATE POLICY target ON atproto.proved_set FOR SELECT
    USING (EXISTS (SELECT FROM pg_catalog.pg_namespace n WHERE n.nspname = target AND pg_catalog.has_schema_privilege(n.oid, 'USAGE')));
SELECT pg_catalog.pg_extension_config_dump('atproto.proved_set', '');

CREATE FUNCTION atproto_internal.proved_set_check() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_proved_set_check';
COMMENT ON FUNCTION atproto_internal.proved_set_check() IS 'trigger: the number of a set follows from the set; a restored set may be there already';
CREATE TRIGGER proved_set_check BEFORE INSERT OR UPDATE ON atproto.proved_set
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.proved_set_check();

CREATE FUNCTION atproto_internal.subscription_proved() RETURNS trigger
    LANGUAGE c SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_subscription_proved';
COMMENT ON FUNCTION atproto_internal.subscription_proved() IS 'trigger: repositories stay synchronized only while their proved collections are those of each subscription that follows the repository';
CREATE TRIGGER subscription_proved AFTER INSERT OR UPDATE OF target, collections, dids, slice, actions, keep_records, enabled, stopped ON atproto.subscription
    FOR EACH ROW EXECUTE FUNCTION atproto_internal.subscription_proved();

REVOKE ALL ON FUNCTION atproto_internal.proved_set_check(), atproto_internal.subscription_proved() FROM PUBLIC;
