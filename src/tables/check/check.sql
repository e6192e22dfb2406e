/*
 * src/tables: atproto.check(), which checks the invariants between the tables.
 */

CREATE FUNCTION atproto.check(
    target name DEFAULT NULL, deep boolean DEFAULT false, share double precision DEFAULT 1,
    OUT what text, OUT target name, OUT did @extschema@.did, OUT object text, OUT detail text, OUT mend text
) RETURNS SETOF record
    LANGUAGE c STABLE SET search_path = pg_catalog, pg_temp AS 'MODULE_PATHNAME', 'atp_check';
COMMENT ON FUNCTION atproto.check(name, boolean, double precision) IS 'check the invariants between the tables: a row for each violation, with what to do (mend); no row: no violation. Target NULL: all targets; deep: also audit every synchronized repository, and compare stored events; share: read only this part of the pages of large tables';
REVOKE ALL ON FUNCTION atproto.check(name, boolean, double precision) FROM PUBLIC;
