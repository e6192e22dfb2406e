-- What an index finds is what a scan of the table finds: for each type, each
-- index that it can have, and each operator that an index or the planner knows,
-- with constants, with parameters of generic plans, and in joins.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

-- Values of all kinds, all of which are bases as well.
CREATE FUNCTION pg_temp.uris(scheme text) RETURNS SETOF text LANGUAGE sql AS $$
	WITH authority (a) AS (VALUES ('did:plc:44ybard66vv44zksje25o7dz'), ('did:plc:44ybard66vv44zksje25o7d2'), ('did:plc:44ybard66vv44zksje25o7dz2'),
		('did:plc:44YBARD66VV44ZKSJE25O7DZ'), ('did:plc:z72i7hdynmk6r22z27h6tvur'), ('did:web:a.b'), ('did%3Aplc%3Aa'), ('a.b'), ('a.b%00'), ('1673')),
	path (p) AS (VALUES (''), ('/a.b.c'), ('/a.b.c!'), ('/a.b.c/x'), ('/a.b.c/3jwdwj2ctlk26'), ('/a.b.c/3jwdwj2ctlk26!'), ('/app.bsky.feed.post/3jwdwj2ctlk26')),
	suffix (s) AS (VALUES (''), ('?x'), ('#/text'), ('#/text/0'), ('?x#/text'))
	SELECT scheme || a || p || s FROM authority, path, suffix
	UNION ALL SELECT scheme || 'did:plc:' || translate(substr(md5(n::text), 1, 24), '0189', 'wxyz') || s
		FROM generate_series(1, 20) n, (VALUES (''), ('/a.b.c/x'), ('?x'), ('/a.b.c/x#/text')) suffix (s)
	-- as long as can be, or nearly so
	UNION ALL SELECT rpad(scheme || a || s, 8192 - short, 'x') FROM (VALUES (0), (1), (2)) short (short),
		(VALUES ('did:plc:44ybard66vv44zksje25o7dz'), ('a.b')) authority (a), (VALUES ('/a.b.c/x'), ('?x'), ('#/text')) suffix (s)
	UNION ALL SELECT scheme || rpad('did:web:', 2048 - short, 'x') || s FROM generate_series(0, 3) short, (VALUES (''), ('#/text')) suffix (s)
	UNION ALL SELECT rpad(scheme, 8192 - short, '~') FROM generate_series(0, 1) short
$$;
CREATE TABLE v_aturi AS SELECT u::aturi AS x FROM pg_temp.uris('at://') u;
CREATE TABLE v_noshuri AS SELECT u::noshuri AS x FROM pg_temp.uris('nosh://') u;
CREATE TABLE v_did AS SELECT DISTINCT aturi_did(x) AS x FROM v_aturi WHERE aturi_did(x) IS NOT NULL;
CREATE TABLE v_handle AS SELECT h::handle AS x FROM unnest(ARRAY['a.b', 'a.b-c', 'a.b.c', 'b.a', 'a-b.c', '0.a', rpad('a.', 60, 'x'), repeat('a.', 126) || 'a']) h;
INSERT INTO v_handle SELECT ('h' || n || '.a')::handle FROM generate_series(1, 100) n;
CREATE TABLE v_nsid AS SELECT DISTINCT aturi_collection(x) AS x FROM v_aturi WHERE aturi_collection(x) IS NOT NULL;
INSERT INTO v_nsid SELECT n::nsid FROM unnest(ARRAY['A.b.c', 'a.b.C', 'a.b.c.d', 'a-b.c.d', repeat('a.', 127) || repeat('b', 63)]) n;
CREATE TABLE v_recordkey AS SELECT k::recordkey AS x
FROM unnest(ARRAY['-', '.a', ':', 'a', 'self', '~', '2222222222222', 'jzzzzzzzzzzzz', 'kzzzzzzzzzzzz', '3jwdwj2ctlk2', '3jwdwj2ctlk26', '3jwdwj2ctlk261', '3JWDWJ2CTLK26', repeat('x', 512)]) k;
INSERT INTO v_recordkey SELECT recordkey((n * 1000003)::bigint::atproto.tid) FROM generate_series(1, 100) n;
CREATE TABLE v_tid AS SELECT t::atproto.tid AS x
FROM unnest('{2222222222222,2222222222223,22222222222zz,2222222222322,3jwdwj2ctlk26,bzzzzzzzzzzzz,c222222222222,jzzzzzzzzzzzy,jzzzzzzzzzzzz}'::text[]) t;
INSERT INTO v_tid SELECT (n::bigint * 1000000007)::atproto.tid FROM generate_series(1, 100) n;
CREATE TABLE v_cidlink AS SELECT cidlink_of(n::text::bytea, CASE n % 2 WHEN 0 THEN 'raw' ELSE 'dag-cbor' END) AS x FROM generate_series(1, 100) n;
INSERT INTO v_cidlink VALUES ('\x01550000'::bytea::cidlink), (('\x0155005e'::bytea || decode(repeat('ff', 94), 'hex'))::cidlink);

CREATE TABLE truth (operation text, base int, n bigint, sum bigint);
CREATE TABLE checked (type text, method text, operation text, way text, differing bigint);

-- Compares for one index; what the index is not used for is not entered.
CREATE FUNCTION pg_temp.check_index(type regtype, method text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	op record;
	base record;
	plan text;
	line text;
	condition text;
	aggregates constant text := 'count(v.n) AS n, coalesce(sum(v.n * v.n), 0)::bigint AS sum';
	found record;
	way text;
	wrong bigint;
	bases text;
BEGIN
	EXECUTE format('CREATE INDEX tested ON indexed USING %s', method);
	FOR op IN
		SELECT o.oprname, left_side, CASE WHEN left_side THEN oprright ELSE oprleft END::regtype AS other, p.prosupport <> 0 AS special,
			CASE WHEN left_side THEN 'x ' || oprname || ' ' || oprright::regtype ELSE oprleft::regtype || ' ' || oprname || ' x' END AS operation
		FROM pg_operator o JOIN pg_proc p ON p.oid = o.oprcode, (VALUES (true), (false)) side (left_side)
		WHERE CASE WHEN left_side THEN oprleft ELSE oprright END = type AND oprkind = 'b'
			AND (p.prosupport <> 0 OR EXISTS (SELECT FROM pg_amop WHERE amopopr = o.oid))
		ORDER BY o.oprname, 2, 3
	LOOP
		condition := CASE WHEN op.left_side THEN 'v.x ' || op.oprname || ' BASE' ELSE 'BASE ' || op.oprname || ' v.x' END;
		-- for operators that are the server's own, some of the bases will do
		bases := format('(SELECT * FROM bases_%s WHERE %L OR n %% 10 = 1) b', replace(op.other::text, 'atproto.', ''), op.special);
		IF NOT EXISTS (SELECT FROM truth t WHERE t.operation = type || ': ' || op.operation) THEN
			SET LOCAL enable_seqscan = on; SET LOCAL enable_indexscan = off; SET LOCAL enable_indexonlyscan = off; SET LOCAL enable_bitmapscan = off;
			EXECUTE format('INSERT INTO truth SELECT %L, b.n, %s FROM %s LEFT JOIN indexed v ON ' || replace(condition, 'BASE', 'b.x') || ' GROUP BY b.n',
				type || ': ' || op.operation, aggregates, bases);
		END IF;
		SET LOCAL enable_seqscan = off; SET LOCAL enable_indexscan = on; SET LOCAL enable_indexonlyscan = on; SET LOCAL enable_bitmapscan = on;

		FOREACH way IN ARRAY '{join,parameter,constant}'::text[] LOOP
			wrong := 0;
			IF way = 'join' THEN
				line := format('SELECT b.n AS base, %s FROM %s LEFT JOIN indexed v ON ' || replace(condition, 'BASE', 'b.x') || ' GROUP BY b.n',
					aggregates, bases);
				plan := pg_temp.plan_of(line);
				CONTINUE WHEN plan !~ 'Index Cond';
				EXECUTE format('SELECT count(*) FROM (%s) f FULL JOIN (SELECT * FROM truth WHERE operation = %L) t USING (base) WHERE (f.n, f.sum) IS DISTINCT FROM (t.n, t.sum)',
					line, type || ': ' || op.operation) INTO wrong;
			ELSE
				EXECUTE format('PREPARE by_parameter (%s) AS SELECT %s FROM indexed v WHERE ' || replace(condition, 'BASE', '$1'), op.other, aggregates);
				plan := NULL;
				FOR base IN EXECUTE 'SELECT n, x::text FROM ' || bases LOOP
					line := CASE way WHEN 'parameter' THEN format('EXECUTE by_parameter (%L)', base.x)
						ELSE format('SELECT %s FROM indexed v WHERE ', aggregates) || replace(condition, 'BASE', format('%L::%s', base.x, op.other)) END;
					plan := coalesce(plan, pg_temp.plan_of(line));
					EXIT WHEN plan !~ 'Index Cond';
					EXECUTE line INTO found;
					wrong := wrong + (SELECT count(*) FROM truth t WHERE operation = type || ': ' || op.operation AND t.base = base.n AND (t.n, t.sum) IS DISTINCT FROM (found.n, found.sum));
				END LOOP;
				DEALLOCATE by_parameter;
				CONTINUE WHEN plan !~ 'Index Cond';
			END IF;
			INSERT INTO checked VALUES (type, method, op.operation, way, wrong);
		END LOOP;
	END LOOP;
	DROP INDEX tested;
END $$;

CREATE FUNCTION pg_temp.plan_of(query text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	line text;
	plan text := '';
BEGIN
	FOR line IN EXECUTE 'EXPLAIN (COSTS OFF) ' || query LOOP
		plan := plan || line || E'\n';
	END LOOP;
	RETURN plan;
END $$;

-- All indexes of a type.
CREATE FUNCTION pg_temp.check_type(type regtype) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
	class record;
BEGIN
	-- few rows on a page, so that BRIN has ranges to tell apart
	EXECUTE format('CREATE TABLE indexed (n bigint, x %s) WITH (fillfactor = 10)', type);
	EXECUTE format('INSERT INTO indexed SELECT * FROM bases_%s ORDER BY n', replace(type::text, 'atproto.', ''));
	ANALYZE indexed;
	FOR class IN SELECT amname, opcname FROM pg_opclass c JOIN pg_am a ON a.oid = opcmethod WHERE opcintype = type ORDER BY 1, 2 LOOP
		PERFORM pg_temp.check_index(type, format('%s (x %s)%s', class.amname, class.opcname, CASE class.amname WHEN 'brin' THEN ' WITH (pages_per_range = 1)' END));
	END LOOP;
	DROP TABLE indexed;
END $$;

SET plan_cache_mode = force_generic_plan;
SET enable_material = off;
SET enable_memoize = off;
SET enable_hashjoin = off;
SET enable_mergejoin = off;
SET max_parallel_workers_per_gather = 0;
SET jit = off;
DO $$
DECLARE
	name text;
BEGIN
	FOREACH name IN ARRAY '{aturi,noshuri,did,handle,nsid,recordkey,tid,cidlink}'::text[] LOOP
		EXECUTE format('CREATE TABLE bases_%s AS SELECT row_number() OVER (ORDER BY x) AS n, x FROM v_%1$s', name);
		EXECUTE format('ANALYZE bases_%s', name);
	END LOOP;
	FOREACH name IN ARRAY '{aturi,noshuri,did,handle,nsid,recordkey,atproto.tid,cidlink}'::text[] LOOP
		PERFORM pg_temp.check_type(name::regtype);
	END LOOP;
END $$;

-- What was compared, and how many results were different.
SELECT type, method, string_agg(way, ', ' ORDER BY way) AS ways, operations, sum(differing) AS differing
FROM (SELECT type, method, way, string_agg(operation, ', ' ORDER BY operation COLLATE "C") AS operations, sum(differing) AS differing FROM checked GROUP BY 1, 2, 3) c
GROUP BY 1, 2, operations ORDER BY type COLLATE "C", method COLLATE "C", length(operations);
SELECT count(*) > 300 AS many FROM bases_aturi;

DROP TABLE v_aturi, v_noshuri, v_did, v_handle, v_nsid, v_recordkey, v_tid, v_cidlink, truth, checked,
	bases_aturi, bases_noshuri, bases_did, bases_handle, bases_nsid, bases_recordkey, bases_tid, bases_cidlink;
