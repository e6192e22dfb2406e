-- What bench/data.sh measures in a server.  Prints the rows of a Markdown table.
SET client_min_messages = warning;

CREATE TABLE record AS
SELECT split_part(r.uri::text, '/', 4) AS collection, r.value, jsonb_to_dagcbor(r.value) AS block, r.value::text AS json
FROM frame, atproto.frame_records(bytes) r
WHERE r.value IS NOT NULL;

\ir took.sql

CREATE TABLE result (n int GENERATED ALWAYS AS IDENTITY, line text);

/*
 * Two expressions on the rows of "sample", in turn, each less the scan of its
 * column: octet_length() does not look at the value, as length() of a text does.
 */
CREATE PROCEDURE compare(what text, ours text, our_column text, other text, other_column text, wanted text, runs int)
LANGUAGE plpgsql AS $$
DECLARE
	a float8[];
	b float8[];
	am float8;
	bm float8;
	n float8 := (SELECT count(*) FROM sample);
BEGIN
	FOR i IN 0..runs LOOP
		a := a || took(format('SELECT count(%s) FROM sample', ours)) - took(format('SELECT count(octet_length(%s)) FROM sample', our_column));
		b := b || took(format('SELECT count(%s) FROM sample', other)) - took(format('SELECT count(octet_length(%s)) FROM sample', other_column));
		IF i = 0 THEN a := NULL; b := NULL; END IF; -- warm up
	END LOOP;
	am := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(a) x) * 1000 / n;
	bm := (SELECT percentile_cont(0.5) WITHIN GROUP (ORDER BY x) FROM unnest(b) x) * 1000 / n;
	INSERT INTO result (line) VALUES (
		format('| %s | %s | %s | %s | %s |', what, round(am::numeric, 2), round(bm::numeric, 2), round((am / bm)::numeric, 3), wanted));
END $$;

-- No value may be compressed or out of line: that would be measured too.
CREATE TABLE sample (block bytea, json text, value jsonb);
ALTER TABLE sample ALTER block SET STORAGE EXTERNAL, ALTER json SET STORAGE EXTERNAL, ALTER value SET STORAGE EXTERNAL;

CREATE PROCEDURE fill(condition text, rows int) LANGUAGE plpgsql AS $$
BEGIN
	TRUNCATE sample;
	EXECUTE format('INSERT INTO sample SELECT block, json, value FROM record, generate_series(1, 1 + %s / (SELECT count(*) FROM record WHERE %s)) WHERE %2$s LIMIT %1$s',
				   rows, condition);
END $$;

CALL fill($$collection = 'app.bsky.feed.post' AND length(block) BETWEEN 200 AND 800$$, :rows);
SELECT format('dagcbor_to_jsonb, posts of %s bytes (JSON text %s)', round(avg(length(block))), round(avg(length(json)))) AS posts FROM sample \gset
CALL compare(:'posts', 'dagcbor_to_jsonb(block)', 'block', 'json::jsonb', 'json', 'at most 0.25', :runs);
CALL compare('jsonb_to_dagcbor, the same posts; compared with jsonb to text', 'jsonb_to_dagcbor(value)', 'block', 'value::text', 'block', '', :runs);
CALL fill($$collection <> 'app.bsky.feed.post' AND length(block) < 1500$$, :rows);
SELECT format('dagcbor_to_jsonb, other records of %s bytes (JSON text %s)', round(avg(length(block))), round(avg(length(json)))) AS others FROM sample \gset
CALL compare(:'others', 'dagcbor_to_jsonb(block)', 'block', 'json::jsonb', 'json', 'at most 0.3', :runs);

-- Records by their Lexicons, at most 1 µs a like
CALL fill($$collection = 'app.bsky.feed.like'$$, :rows);
CALL compare('lexicon_valid, likes; compared with JSON text to jsonb', $$atproto.lexicon_valid(value, 'app.bsky.feed.like')$$, 'block', 'json::jsonb', 'json', '', :runs);
CALL fill($$collection = 'app.bsky.feed.post' AND length(block) BETWEEN 200 AND 800$$, :rows);
CALL compare('lexicon_valid, posts; likewise', $$atproto.lexicon_valid(value, 'app.bsky.feed.post')$$, 'block', 'json::jsonb', 'json', '', :runs);

SELECT line FROM result ORDER BY n;
