/*
 * src/tables: whether the tables fit together.
 */

CREATE FUNCTION atproto.check(
    target name DEFAULT NULL, deep boolean DEFAULT false, share double precision DEFAULT 1,
    OUT what text, OUT target name, OUT did @extschema@.did, OUT object text, OUT detail text, OUT mend text
) RETURNS SETOF record
    LANGUAGE c STABLE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_check';
COMMENT ON FUNCTION atproto.check(name, boolean, double precision) IS 'do the tables fit together: a row for each thing that does not, with what to do (mend); no row: they do. Target NULL: all targets; deep: also audits every repository that is synchronized, and compares what is kept of events; share: of large tables, this part of their pages is enough';
REVOKE ALL ON FUNCTION atproto.check(name, boolean, double precision) FROM PUBLIC;
