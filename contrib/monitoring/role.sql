-- The role that the exporter connects as; for a superuser, in the database that has
-- the extension.  README.md says what each right is for.
CREATE ROLE prometheus LOGIN BYPASSRLS;
GRANT pg_monitor TO prometheus;
-- collection_stat is there from the first subscription on, or from this.
SELECT atproto.create_tables('atproto');
GRANT SELECT ON atproto.dead_letter, atproto.gap, atproto.collection_stat TO prometheus;
