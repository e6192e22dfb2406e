-- What bench/dagcbor.sh measures in a server: prints two Markdown tables.
SET client_min_messages = warning;

CREATE TABLE record AS
SELECT split_part(r.uri::text, '/', 4) AS collection, r.value, jsonb_to_dagcbor(r.value) AS block
FROM frame, atproto.frame_records(bytes) r
WHERE r.value IS NOT NULL AND r.action = 'create';

-- A value in the same row as in a table of a user; none is compressed or out of line, as nearly all records.
CREATE TABLE as_jsonb (collection text, v jsonb);
CREATE TABLE as_dagcbor (collection text, v dagcbor);
CREATE TABLE as_block (collection text, v bytea);
INSERT INTO as_jsonb SELECT collection, value FROM record;
INSERT INTO as_dagcbor SELECT collection, value FROM record;
INSERT INTO as_block SELECT collection, block FROM record;

-- Nothing below counts unless the values are the same.
DO $$
BEGIN
	IF EXISTS (SELECT FROM record WHERE value::dagcbor::jsonb IS DISTINCT FROM value OR value::dagcbor::bytea <> block) THEN
		RAISE 'a value differs';
	END IF;
END $$;

\echo Bytes of a value in a row, its header included, by collection; the ratio is of dagcbor to jsonb:
\echo
\echo '| collection | records | jsonb | DAG-CBOR | dagcbor | ratio |'
\echo '|---|---|---|---|---|---|'
SELECT format('| %s | %s | %s | %s | %s | %s |', coalesce(collection, 'all'), max(n), max(size) FILTER (WHERE form = 'j'), max(size) FILTER (WHERE form = 'b'), max(size) FILTER (WHERE form = 'd'),
	round(max(size) FILTER (WHERE form = 'd') / max(size) FILTER (WHERE form = 'j'), 2))
FROM (SELECT 'j' AS form, collection, count(*) AS n, round(avg(pg_column_size(v))) AS size FROM as_jsonb GROUP BY ROLLUP (collection)
	UNION ALL SELECT 'd', collection, count(*), round(avg(pg_column_size(v))) FROM as_dagcbor GROUP BY ROLLUP (collection)
	UNION ALL SELECT 'b', collection, count(*), round(avg(pg_column_size(v))) FROM as_block GROUP BY ROLLUP (collection)) s
GROUP BY collection ORDER BY collection IS NULL, max(n) DESC;
\echo

\ir took.sql
CREATE TABLE result (n int GENERATED ALWAYS AS IDENTITY, line text);

CREATE TABLE jsonb_rows (v jsonb);
CREATE TABLE dagcbor_rows (v dagcbor);
CREATE TABLE block_rows (v bytea);
CREATE PROCEDURE fill(condition text, rows int) LANGUAGE plpgsql AS $$
DECLARE
	kind text;
BEGIN
	FOREACH kind IN ARRAY '{jsonb,dagcbor,block}'::text[] LOOP
		EXECUTE format('TRUNCATE %s_rows', kind);
		EXECUTE format('INSERT INTO %s_rows SELECT v FROM as_%1$s, generate_series(1, 1 + %s / (SELECT nullif(count(*), 0) FROM record WHERE %s)) WHERE %3$s LIMIT %2$s', kind, rows, condition);
	END LOOP;
END $$;

-- An expression on the rows of both tables, in turn; each statement runs once before the run that counts, and the scan of the
-- column is subtracted.  Few events may have no record of a kind, and few rows take no time.
CREATE PROCEDURE compare(what text, ours text, our_rows text, other text, other_rows text, wanted text, runs int) LANGUAGE plpgsql AS $$
DECLARE
	a float8[];
	b float8[];
	am float8;
	bm float8;
	n float8 := (SELECT count(*) FROM jsonb_rows);
BEGIN
	IF n = 0 THEN
		INSERT INTO result (line) VALUES (format('| %s | no records | | | %s |', what, wanted));
		RETURN;
	END IF;
	FOR i IN 0..runs LOOP
		a := a || took(format('SELECT count(%s) FROM %s', ours, our_rows)) - took(format('SELECT count(v) FROM %s', our_rows));
		b := b || took(format('SELECT count(%s) FROM %s', other, other_rows)) - took(format('SELECT count(v) FROM %s', other_rows));
		IF i = 0 THEN a := NULL; b := NULL; END IF; -- warm up
	END LOOP;
	am := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(a) x) * 1000 / n;
	bm := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(b) x) * 1000 / n;
	INSERT INTO result (line) VALUES (
		format('| %s | %s | %s | %s | %s |', what, round(am::numeric, 3), round(bm::numeric, 3), CASE WHEN bm > 0 THEN round((am / bm)::numeric, 2) END, wanted));
END $$;

CALL fill($$collection = 'app.bsky.feed.like'$$, :rows);
CALL compare('likes: `->>''createdAt''`', $$v->>'createdAt'$$, 'dagcbor_rows', $$v->>'createdAt'$$, 'jsonb_rows', 'at most 1.5', :runs);
CALL compare('likes: `#>>''{subject,uri}''`', $$v#>>'{subject,uri}'$$, 'dagcbor_rows', $$v#>>'{subject,uri}'$$, 'jsonb_rows', 'at most 1.5', :runs);
CALL compare('likes: `#>>''{subject,cid}''`', $$v#>>'{subject,cid}'$$, 'dagcbor_rows', $$v#>>'{subject,cid}'$$, 'jsonb_rows', 'at most 1.5', :runs);
CALL compare('likes: `::text`', 'v::text', 'dagcbor_rows', 'v::text', 'jsonb_rows', '', :runs);
CALL compare('likes: dagcbor to jsonb; compared with jsonb to text', 'v::jsonb', 'dagcbor_rows', 'v::text', 'jsonb_rows', '', :runs);
CALL compare('likes: DAG-CBOR to dagcbor; compared with DAG-CBOR to jsonb', 'v::dagcbor', 'block_rows', 'dagcbor_to_jsonb(v)', 'block_rows', '', :runs);
CALL fill($$collection = 'app.bsky.feed.post'$$, :rows);
CALL compare('posts: `->>''createdAt''`', $$v->>'createdAt'$$, 'dagcbor_rows', $$v->>'createdAt'$$, 'jsonb_rows', 'at most 1.5', :runs);
CALL compare('posts: `->>''text''`', $$v->>'text'$$, 'dagcbor_rows', $$v->>'text'$$, 'jsonb_rows', 'at most 1.5', :runs);
CALL compare('posts: `#>>''{reply,parent,uri}''`', $$v#>>'{reply,parent,uri}'$$, 'dagcbor_rows', $$v#>>'{reply,parent,uri}'$$, 'jsonb_rows', 'at most 1.5', :runs);
CALL compare('posts: `::text`', 'v::text', 'dagcbor_rows', 'v::text', 'jsonb_rows', '', :runs);
CALL fill('true', :rows);
CALL compare('all: `->>''createdAt''`', $$v->>'createdAt'$$, 'dagcbor_rows', $$v->>'createdAt'$$, 'jsonb_rows', 'at most 1.5', :runs);
CALL compare('all: `#>>''{subject,uri}''`', $$v#>>'{subject,uri}'$$, 'dagcbor_rows', $$v#>>'{subject,uri}'$$, 'jsonb_rows', 'at most 1.5', :runs);
CALL compare('all: `@> ''{"subject": …}''`, by the cast', $$v @> '{"subject": "x"}'$$, 'dagcbor_rows', $$v @> '{"subject": "x"}'$$, 'jsonb_rows', '', :runs);

\echo Microseconds a value, the scan of the table subtracted; the ratio is the figure of dagcbor divided by the other one:
\echo
\echo '| what | dagcbor | compared with | ratio | wanted |'
\echo '|---|---|---|---|---|'
SELECT line FROM result ORDER BY n;
