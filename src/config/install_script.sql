/*
 * src/config: which install script made the objects of the extension (extension.c).  The last part of the script, and only
 * until the first release.
 */
CREATE FUNCTION atproto_internal.install_script() RETURNS text
    LANGUAGE sql IMMUTABLE SET search_path = pg_catalog, pg_temp AS 'SELECT ''@DIGEST@''::text';
COMMENT ON FUNCTION atproto_internal.install_script() IS 'digest of the install script';
