-- Values that no input function has made: of a damaged page, or of a cast without a check.  A function that reads such a value
-- ends with a result or with the error XX001, never with the server.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
CREATE TEMP TABLE types AS SELECT t FROM unnest('{did,handle,nsid,recordkey,cidlink,aturi,noshuri}'::text[]) t;
CREATE SCHEMA damaged;
SELECT atproto.create_tables('damaged');
CREATE CAST (bytea AS json) WITHOUT FUNCTION;
SELECT format('CREATE CAST (json AS %I) WITHOUT FUNCTION', t) FROM types \gexec

-- Single bytes, before a few and before many bytes; texts without their parts, texts that are too long; tags without what belongs to them.
CREATE TEMP TABLE damaged AS
SELECT set_byte('\x00', 0, b) || rest AS v
FROM unnest('{0,1,2,3,4,5,6,9,32,37,46,47,65,97,100,127,128,239,240,255}'::int[]) b,
	(VALUES ('\x'::bytea), ('\x01'), ('\x010203040506070809'), (convert_to(repeat('a', 40), 'UTF8')), (convert_to(repeat('a.', 5000), 'UTF8'))) r (rest)
UNION SELECT convert_to(head || part || tail, 'UTF8')
FROM unnest('{"",did:,did:plc:,did:plc:aaaaaaaaaaaaaaaaaaaaaaaa,%,a.b.c/}'::text[]) head,
	(SELECT repeat(p, n) FROM unnest('{a,.,%,/,%25,#,:}'::text[]) p, unnest('{0,1,13,520,9000}'::int[]) n) p (part),
	unnest('{"",.,%2}'::text[]) tail
UNION SELECT head || tail
FROM unnest('{"\\x01","\\x0102030405060708090a0b0c0d0e0f10","\\x01711220","\\x6162","\\x"}'::bytea[]) head,
	unnest('{"\\x","\\x02","\\x03","\\x04","\\x05","\\x06","\\x07","\\x0201","\\x0302030405060708","\\x05020304050607080900","\\x0303","\\xffffffff7f","\\xffffffffffffffffff01"}'::bytea[]) tail;

-- Every function with an argument of the type, and sensible values for its other arguments; every operator, each side.
CREATE TEMP TABLE others AS
SELECT o.name::regtype AS t, o.value FROM (VALUES ('did', 'did:web:a.test'), ('handle', 'a.test'), ('nsid', 'a.b.c'), ('recordkey', 'self'), ('atproto.tid', '3jwdwj2ctlk26'),
	('cidlink', 'bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku'), ('aturi', 'at://a.test/a.b.c/self'), ('noshuri', 'nosh://1/a.b.c/self'), ('text', 'any'), ('name', 'damaged'),
	('int4', '1'), ('int8', '1'), ('bool', 'true'), ('jsonb', '{}'), ('bytea', '\x00'), ('internal', NULL)) o (name, value);
CREATE TEMP TABLE calls AS
SELECT t.t, format('%s(%s)', p.oid::regproc, (SELECT string_agg(CASE WHEN a.n = place.n THEN 'x' ELSE format('%L::%s', o.value, o.t) END, ', ' ORDER BY a.n)
	FROM unnest(p.proargtypes::regtype[]) WITH ORDINALITY a (type, n) LEFT JOIN others o ON o.t = a.type)) AS expression
FROM types t, pg_depend d, pg_proc p, unnest(p.proargtypes::regtype[]) WITH ORDINALITY place (type, n)
WHERE d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'atproto') AND d.classid = 'pg_proc'::regclass AND d.objid = p.oid
	AND p.prokind = 'f' AND p.provolatile <> 'v' AND place.type = t.t::regtype AND p.prorettype <> 'internal'::regtype
	AND NOT EXISTS (SELECT FROM unnest(p.proargtypes::regtype[]) a (type) WHERE a.type <> t.t::regtype AND a.type NOT IN (SELECT o.t FROM others o WHERE o.value IS NOT NULL))
UNION SELECT t.t, format(CASE side WHEN 1 THEN 'x %2$s %1$L::%3$s' ELSE '%1$L::%3$s %2$s x' END, o.value, op.oprname, o.t)
FROM types t, generate_series(1, 2) side, pg_operator op, others o
WHERE t.t::regtype = CASE side WHEN 1 THEN op.oprleft ELSE op.oprright END AND o.t = CASE side WHEN 1 THEN op.oprright ELSE op.oprleft END AND o.value IS NOT NULL;
SELECT t, count(*) > 10 AS many FROM calls GROUP BY t ORDER BY t;

-- Call an expression with each value; returns how, and with an example, where neither a result nor an error of the value is the answer.
CREATE FUNCTION pg_temp.call_with(t text, expression text, OUT said text, OUT example text) RETURNS SETOF record LANGUAGE plpgsql AS $$
DECLARE
	d bytea;
	result text;
BEGIN
	FOR d IN SELECT v FROM damaged LOOP
		BEGIN
			EXECUTE format('SELECT (%s)::text FROM (SELECT $1::json::%I) x (x)', expression, t) INTO result USING d;
		EXCEPTION WHEN OTHERS THEN
			-- 22: the value; 42704: no Lexicon of this name
			IF SQLSTATE <> 'XX001' AND SQLSTATE NOT LIKE '22%' AND SQLSTATE <> '42704' THEN
				said := expression || ' ' || SQLSTATE || ' ' || SQLERRM;
				example := left(d::text, 60);
				RETURN NEXT;
			END IF;
		END;
	END LOOP;
END
$$;
SELECT t, (c).said, min((c).example) AS example, count(*) FROM (SELECT t, pg_temp.call_with(t, expression) AS c FROM calls) x GROUP BY 1, 2 ORDER BY 1, 2;

-- The planner, sorts, and statistics.
CREATE FUNCTION pg_temp.plan_with(sql text) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
	d bytea;
	n bigint := 0;
BEGIN
	FOR d IN SELECT v FROM damaged LOOP
		BEGIN
			EXECUTE format(sql, d);
		EXCEPTION WHEN data_corrupted THEN
			n := n + 1;
		END;
	END LOOP;
	RETURN n;
END
$$;
CREATE TABLE damaged.uris AS SELECT format('at://did:web:a%s.test/a.b.c/%s', i % 9, i)::aturi AS u FROM generate_series(1, 300) i;
CREATE INDEX ON damaged.uris (u);
ANALYZE damaged.uris;
SELECT pg_temp.plan_with('EXPLAIN SELECT FROM damaged.uris WHERE u <@ %L::bytea::json::aturi') > 100 AS many;
SELECT format('CREATE TABLE damaged.of_%s AS SELECT v::json::%1$s AS v FROM damaged WHERE octet_length(v) < 1000', t) FROM types \gexec
SELECT format('DO $d$ BEGIN PERFORM v FROM damaged.of_%s ORDER BY v; EXCEPTION WHEN data_corrupted THEN END $d$', t) FROM types \gexec
SELECT format('DO $d$ BEGIN ANALYZE damaged.of_%s; EXCEPTION WHEN data_corrupted THEN END $d$', t) FROM types \gexec
SET client_min_messages = warning;
DROP SCHEMA damaged CASCADE;
