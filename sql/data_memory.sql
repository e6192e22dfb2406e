-- A function that returns rows leaves no memory behind, when a query calls the function for each row of a table.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

-- Does a query of many rows keep more than 20 bytes of memory for each row?
CREATE FUNCTION kept(query text) RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
	c refcursor;
	used bigint[];
BEGIN
	OPEN c FOR EXECUTE query;
	FOR i IN 1 .. 2 LOOP
		MOVE FORWARD 4000 FROM c;
		used[i] := (SELECT sum(used_bytes) FROM pg_backend_memory_contexts);
	END LOOP;
	CLOSE c;
	RETURN used[2] - used[1] > 20 * 4000;
END $$;
SELECT kept('SELECT f.* FROM generate_series(1, 10000) n, LATERAL record_links(format(''["at://did:web:a%s.example.com"]'', n)::jsonb) f');
SELECT kept('SELECT n FROM generate_series(1, 10000) n WHERE EXISTS (SELECT FROM dagcbor_links(jsonb_to_dagcbor(format(''["at://did:web:a%s.example.com"]'', n)::jsonb)))');
SELECT kept('SELECT f.* FROM generate_series(1, 10000) n, LATERAL atproto.plc_check(format(''[{"did": "did:plc:ewvi7nxzyoun6zhxrhs64oi%s"}]'', n)::jsonb) f');
-- in the list of SELECT
SELECT kept('SELECT record_links(format(''["at://did:web:a%s.example.com"]'', n)::jsonb) FROM generate_series(1, 10000) n');
SELECT kept($$SELECT f.* FROM generate_series(1, 10000) n LEFT JOIN LATERAL car_blocks('\x11a265726f6f7473806776657273696f6e01' || substr(''::bytea, n)) f ON true$$);

-- An index calls the hash and the equality of a type outside of a row's memory.  The predicate of the index looks at the memory
-- between rows.
CREATE TEMP SEQUENCE seen_at_1000;
CREATE TEMP SEQUENCE seen_at_5000;
CREATE FUNCTION seen(i int) RETURNS boolean LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
	IF i IN (1000, 5000) THEN
		PERFORM setval('pg_temp.seen_at_' || i, sum(used_bytes)::bigint) FROM pg_backend_memory_contexts;
	END IF;
	RETURN true;
END $$;
CREATE TEMP TABLE hashed AS SELECT n, format('{"$type": "app.bsky.feed.post", "text": "%s"}', repeat(n::text, 600))::dagcbor AS v FROM generate_series(1, 5000) n;
CREATE INDEX ON hashed USING hash (v) WHERE seen(n);
SELECT b.last_value - a.last_value > 20 * 4000 AS index_kept FROM seen_at_1000 a, seen_at_5000 b;
DROP TABLE hashed;
DROP SEQUENCE seen_at_1000, seen_at_5000;
DROP FUNCTION seen(int);
DROP FUNCTION kept(text);
