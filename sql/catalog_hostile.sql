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

-- Nor does a trigger of its tables take one from the search_path of whoever
-- deletes: with a foreign key before it, the trigger runs as the tables' owner.
CREATE FUNCTION public.planted(text, text) RETURNS boolean
	LANGUAGE plpgsql AS $$ BEGIN RAISE 'planted code runs'; END $$;
CREATE OPERATOR public.= (FUNCTION = public.planted, LEFTARG = text, RIGHTARG = text);
INSERT INTO atproto.subscription (name, url) VALUES ('planted', 'wss://example.org');
INSERT INTO atproto.dead_frame (subscription, digest, bytes)
	VALUES ('planted', '\x01', ''), ('planted', '\x02', ''), ('planted', '\x03', '');
INSERT INTO atproto.dead_letter (subscription, digest, stage, sqlstate, message)
	SELECT subscription, digest, 'frame', '22P03', '' FROM atproto.dead_frame;
SET search_path = public, pg_catalog;
DELETE FROM atproto.dead_letter WHERE digest OPERATOR(pg_catalog.=) '\x01';
DELETE FROM atproto.dead_frame WHERE digest OPERATOR(pg_catalog.=) '\x02';
SELECT digest FROM atproto.dead_frame;
DELETE FROM atproto.subscription;
RESET search_path;

DROP OPERATOR public.= (text, text);
DROP FUNCTION public.planted;
