-- The data tables: create_tables() makes those that are missing, and adds the columns that
-- a table of an earlier version lacks.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
CREATE SCHEMA fresh;
SELECT atproto.create_tables('fresh');

-- What they consist of
CREATE TEMP VIEW shape AS
SELECT c.relnamespace::regnamespace::text AS schema, c.relname, c.relkind, a.attname, format_type(a.atttypid, a.atttypmod) AS type,
	a.attnotnull, pg_get_expr(d.adbin, d.adrelid) AS value, col_description(c.oid, a.attnum) AS comment
FROM pg_class c
	JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
	LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
WHERE c.relkind IN ('r', 'p', 'v') AND c.relnamespace::regnamespace::text IN ('fresh', 'earlier', 'own');
SELECT relname, attname, type, attnotnull AS "not null", value, comment FROM shape WHERE schema = 'fresh' AND relkind = 'r'
ORDER BY relname, (SELECT attnum FROM pg_attribute a WHERE attrelid = ('fresh.' || relname)::regclass AND a.attname = shape.attname);
SELECT conrelid::regclass, conname, pg_get_constraintdef(oid) FROM pg_constraint
WHERE connamespace = 'fresh'::regnamespace AND contype IN ('p', 'u') ORDER BY 1, 2;
SELECT relname, reloptions, relreplident, obj_description(oid) FROM pg_class
WHERE relnamespace = 'fresh'::regnamespace AND relkind IN ('r', 'v') ORDER BY 1;
SELECT indexrelid::regclass, pg_get_expr(indpred, indrelid) FROM pg_index
WHERE indpred IS NOT NULL AND indrelid = 'fresh.repo'::regclass;

-- A table without columns of now gets them, in all of its rows
CREATE SCHEMA earlier;
SELECT atproto.create_tables('earlier');
INSERT INTO earlier.repo (did) VALUES ('did:web:example.com');
ALTER TABLE earlier.repo DROP COLUMN first_rev, DROP COLUMN active CASCADE, DROP COLUMN status_seq, DROP COLUMN handle;
ALTER TABLE earlier.label DROP COLUMN sig CASCADE;
ALTER TABLE earlier.record DROP COLUMN raw CASCADE;
DROP TABLE earlier.record_event, earlier.link, earlier.link_source;
SELECT atproto.create_tables('earlier');
SELECT did, first_rev, active, status_seq, handle FROM earlier.repo;
SELECT relname, attname, type, attnotnull, value, comment FROM shape WHERE schema = 'fresh'
EXCEPT SELECT relname, attname, type, attnotnull, replace(value, 'earlier.', 'fresh.'), comment FROM shape WHERE schema = 'earlier' ORDER BY 1, 2;
SELECT count(*) FROM earlier.visible_record;

-- once more changes nothing
CREATE TEMP TABLE before AS SELECT * FROM shape;
SELECT atproto.create_tables('earlier');
SELECT * FROM shape EXCEPT SELECT * FROM before;

-- What a user has put in the place of a table is left alone; partitions get columns with their table
CREATE SCHEMA own;
CREATE TABLE own.record (LIKE fresh.record) PARTITION BY HASH (did);
CREATE TABLE own.record_all PARTITION OF own.record FOR VALUES WITH (MODULUS 1, REMAINDER 0);
ALTER TABLE own.record DROP COLUMN value;
CREATE VIEW own.repo AS SELECT did, rev FROM fresh.repo;
CREATE TABLE own.visible_record ();
CREATE VIEW own.visible_link AS SELECT 1 AS "one";
SELECT atproto.create_tables('own');
SELECT relname, attname FROM shape WHERE schema = 'own' AND relname IN ('record', 'record_all', 'repo', 'visible_record') ORDER BY 1, 2;

-- and so is a table that has nothing of ours but the name: it lacks what a table of any version has, or has something else there
SET client_min_messages = warning;
DROP SCHEMA own CASCADE;
RESET client_min_messages;
CREATE SCHEMA own;
CREATE TABLE own.message (id integer PRIMARY KEY, type text, body text);
CREATE TABLE own.label (src text, uri text, val text, neg boolean, cts timestamptz, exp timestamptz);
CREATE TABLE own.record (LIKE fresh.record);
ALTER TABLE own.record DROP COLUMN cid, DROP COLUMN value;
CREATE TYPE own.half AS (did did, rev atproto.tid);
CREATE TABLE own.record_event OF own.half;
SELECT atproto.create_tables('own');
SELECT relname, string_agg(attname, ' ' ORDER BY attname) FROM shape
WHERE schema = 'own' AND relname IN ('message', 'label', 'record', 'record_event') GROUP BY 1 ORDER BY 1;

-- Only who owns a table may have it changed
CREATE ROLE regress_tables;
GRANT USAGE ON SCHEMA earlier, atproto TO regress_tables;
GRANT EXECUTE ON FUNCTION atproto.create_tables TO regress_tables;
ALTER TABLE earlier.repo DROP COLUMN host;
SET ROLE regress_tables;
SELECT atproto.create_tables('earlier');
RESET ROLE;

SET client_min_messages = warning;
REVOKE ALL ON SCHEMA earlier, atproto FROM regress_tables;
REVOKE ALL ON FUNCTION atproto.create_tables FROM regress_tables;
DROP ROLE regress_tables;
DROP SCHEMA fresh, earlier, own CASCADE;
