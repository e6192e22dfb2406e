-- An operator that somebody has put into the schema of the extension, and that
-- fits one of its expressions better than PostgreSQL's own, is not taken.
\set VERBOSITY terse
SET client_min_messages = warning;
DROP EXTENSION IF EXISTS atproto CASCADE;

CREATE FUNCTION public.planted(text[], text[]) RETURNS boolean
	LANGUAGE plpgsql AS $$ BEGIN RAISE 'planted code runs'; END $$;
CREATE OPERATOR public.<@ (FUNCTION = public.planted, LEFTARG = text[], RIGHTARG = text[]);
CREATE EXTENSION atproto;

SELECT pg_describe_object(d.classid, d.objid, d.objsubid) AS uses_what_was_planted
FROM pg_depend d
WHERE (d.refclassid, d.refobjid) IN (
	('pg_proc'::regclass, 'public.planted(text[], text[])'::regprocedure::oid),
	('pg_operator'::regclass, 'public.<@(text[], text[])'::regoperator::oid))
	AND d.classid <> 'pg_operator'::regclass;

DROP OPERATOR public.<@ (text[], text[]);
DROP FUNCTION public.planted;
