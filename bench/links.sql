-- What bench/links.sh measures in a server.  Prints the rows of a Markdown table.
SET client_min_messages = warning;

\ir took.sql
CREATE TABLE result (n int GENERATED ALWAYS AS IDENTITY, what text, value text, wanted text);

-- no index: nothing here looks for a record
ALTER TABLE atproto.record DROP CONSTRAINT record_pkey;
INSERT INTO atproto.record (did, collection, rkey, cid, rev, value) SELECT did, collection, rkey, cid, rev, value FROM simulated_record;
INSERT INTO atproto.record (did, collection, rkey, cid, rev, value)
SELECT account(:events + n), 'app.bsky.graph.follow', key(n)::recordkey, content(n), key(n), '{"subject": "did:plc:famousfamousfamousfamous"}'
FROM generate_series(1::bigint, :famous) n;
VACUUM (ANALYZE) atproto.record;
CHECKPOINT;

-- All at once.
CREATE PROCEDURE rebuild(what text) LANGUAGE plpgsql AS $$
DECLARE
	started float8 = busy();
	links bigint;
BEGIN
	SELECT added INTO links FROM atproto.rebuild_links();
	IF links = 0 THEN
		links = (SELECT count(*) FROM atproto.link);
	END IF;
	INSERT INTO result (what, value, wanted) VALUES (what, round(((busy() - started) * 1000 / links)::numeric, 2) || ' µs a link', '');
END $$;
CREATE PROCEDURE bytes(what text, wanted text) LANGUAGE sql AS $$
	INSERT INTO result (what, value, wanted)
	SELECT format(what, to_char(n, 'FM999,999,999')), format('%s bytes (table %s, key %s)', round((t + i) / n), round(t / n), round(i / n)), wanted
	FROM (SELECT pg_table_size('atproto.link'), pg_relation_size('atproto.link_pkey'), (SELECT count(*) FROM atproto.link)) s (t, i, n) $$;
CALL rebuild('`rebuild_links()`, an empty table');
VACUUM (ANALYZE) atproto.link, atproto.link_source;
CALL bytes('%s links, rebuilt: each', 'at most 210');
CALL rebuild('`rebuild_links()`, nothing is wrong');

-- As they come from a stream: one statement for each 4,096.
CREATE TABLE arrived AS SELECT row_number() OVER () AS n, l.* FROM (SELECT * FROM atproto.link ORDER BY rkey, did) l;
CREATE INDEX ON arrived (n);
TRUNCATE atproto.link;
CREATE PROCEDURE arrive() LANGUAGE plpgsql AS $$
DECLARE
	started float8 = busy();
	links bigint = (SELECT count(*) FROM arrived);
BEGIN
	FOR i IN 1..links BY 4096 LOOP
		INSERT INTO atproto.link SELECT target, source, rkey, did FROM arrived WHERE n BETWEEN i AND i + 4095 ORDER BY 1, 2, 3, 4;
		COMMIT;
	END LOOP;
	INSERT INTO result (what, value, wanted) VALUES ('links as they come, SQL', round(((busy() - started) * 1000 / links)::numeric, 2) || ' µs a link', '');
END $$;
CALL arrive();
DROP TABLE arrived;
VACUUM (ANALYZE) atproto.link;
CALL bytes('%s links, as they come: each', 'at most 210');

-- Posts that have 50 to 100 likes, and the accounts to which most links lead but the famous one.
CREATE TABLE liked AS
SELECT row_number() OVER () AS n, target FROM (SELECT target FROM atproto.link
	WHERE source = (SELECT id FROM atproto.link_source WHERE collection = 'app.bsky.feed.like' AND path = 'subject.uri')
	GROUP BY target HAVING count(*) BETWEEN 50 AND 100 ORDER BY target LIMIT 1000) l;
CREATE TABLE known AS
SELECT row_number() OVER () AS n, target, links FROM (SELECT aturi_repo(target) AS target, count(*) AS links FROM atproto.link
	GROUP BY 1 ORDER BY 2 DESC OFFSET 1 LIMIT 1000) l;
ANALYZE liked, known;
SELECT format('all links to what an account has, by source; %s accounts with %s to %s links', count(*), min(links), max(links)) AS known FROM known \gset

-- A statement for each row of a table, r.target, with a plan that is kept; the loop without it is taken off.
CREATE PROCEDURE measure(what text, statement text, targets text, wanted text, runs int) LANGUAGE plpgsql AS $$
DECLARE
	took float8[];
	n float8;
BEGIN
	EXECUTE format('CREATE FUNCTION pg_temp.each(OUT took float8) LANGUAGE plpgsql AS $f$
		DECLARE
			r record;
			started float8;
		BEGIN
			started := busy();
			FOR r IN SELECT target FROM %1$s LOOP PERFORM; END LOOP;
			took := started - busy();
			started := busy();
			FOR r IN SELECT target FROM %1$s LOOP PERFORM %2$s; END LOOP;
			took := took + busy() - started;
		END $f$', targets, statement);
	EXECUTE format('SELECT count(*) FROM %s', targets) INTO n;
	FOR i IN 0..runs LOOP
		took := took || pg_temp.each();
		IF i = 0 THEN took := NULL; END IF; -- warm up
	END LOOP;
	DROP FUNCTION pg_temp.each();
	INSERT INTO result (what, value, wanted)
	SELECT what, round((percentile_cont(0.5) WITHIN GROUP (ORDER BY t) / n)::numeric, 3) || ' ms', wanted FROM unnest(took) t;
END $$;

\set likes 'l.source = (SELECT id FROM atproto.link_source WHERE collection = ''app.bsky.feed.like'' AND path = ''subject.uri'')'
\set follows 'l.source = (SELECT id FROM atproto.link_source WHERE collection = ''app.bsky.graph.follow'' AND path = ''subject'')'
SELECT format('did, rkey FROM atproto.link l WHERE l.target = r.target AND %s ORDER BY rkey DESC, did DESC LIMIT 50', :'likes') AS newest,
	format('did, rkey FROM atproto.link l WHERE l.target = r.target AND %s ORDER BY rkey DESC, did DESC LIMIT 50', :'follows') AS newest_follows,
	format('count(*) FROM atproto.link l WHERE l.target = r.target AND %s', :'likes') AS likes_count,
	format('count(*) FROM atproto.link l WHERE l.target = r.target AND %s', :'follows') AS follows_count \gset
CALL measure('the newest 50 likers of a post', :'newest', 'liked', 'under 0.05 ms', :runs);
CALL measure('the same by `atproto.backlinks()`', $$* FROM atproto.backlinks(r.target, 'app.bsky.feed.like:subject.uri')$$, 'liked', '', :runs);
CALL measure('how many like a post that 50 to 100 do', :'likes_count', 'liked', 'under 0.1 ms', :runs);
CALL measure('the same by `atproto.backlink_count()`', $$atproto.backlink_count(r.target, 'app.bsky.feed.like:subject.uri')$$, 'liked', '', :runs);
CALL measure(:'known', 'l.source, count(*) FROM atproto.link l WHERE l.target <@ r.target GROUP BY 1', 'known', '', :runs);
SELECT format('the followers of one account, %s: how many', to_char(:famous, 'FM999,999,999')) AS followers \gset
CALL measure(:'followers', :'follows_count', $$(VALUES ('at://did:plc:famousfamousfamousfamous'::aturi)) v (target)$$, 'under 100 ms', :runs);
CALL measure('the newest 50 of them', :'newest_follows', $$(SELECT 'at://did:plc:famousfamousfamousfamous'::aturi FROM generate_series(1, 1000)) v (target)$$, '', :runs);

-- The same numbers from the table link_count, beside a row of another table by its primary key.
CREATE PROCEDURE count_all() LANGUAGE plpgsql AS $$
DECLARE
	started float8 = busy();
BEGIN
	PERFORM atproto.count_links('{app.bsky.feed.like:subject.uri,app.bsky.graph.follow:subject}');
	INSERT INTO result (what, value, wanted)
	SELECT format('`count_links()` of %s links with %s targets', to_char(sum(n), 'FM999,999,999'), to_char(count(*), 'FM999,999,999')), round(((busy() - started) * 1000 / sum(n))::numeric, 2) || ' µs a link', ''
	FROM atproto.link_count;
END $$;
CALL count_all();
VACUUM (ANALYZE) atproto.link_count;
INSERT INTO result (what, value, wanted)
SELECT 'a count', format('%s bytes (table %s, key %s)', round((t + i) / n), round(t / n), round(i / n)), ''
FROM (SELECT pg_table_size('atproto.link_count'), pg_relation_size('atproto.link_count_pkey'), (SELECT count(*) FROM atproto.link_count)) s (t, i, n);
CREATE TABLE single AS SELECT target, source AS id FROM atproto.link_count;
ALTER TABLE single ADD PRIMARY KEY (target, id);
VACUUM (ANALYZE) single;
SELECT id AS likes_id FROM atproto.link_source WHERE collection = 'app.bsky.feed.like' AND path = 'subject.uri' \gset
SELECT id AS follows_id FROM atproto.link_source WHERE collection = 'app.bsky.graph.follow' AND path = 'subject' \gset
SELECT format('id FROM single s WHERE s.target = r.target AND s.id = %s', :'likes_id') AS single_row,
	format('n FROM atproto.link_count c WHERE c.target = r.target AND c.source = %s', :'likes_id') AS likes_row,
	format('n FROM atproto.link_count l WHERE l.target = r.target AND %s', :'likes') AS likes_row_of,
	format('n FROM atproto.link_count c WHERE c.target = r.target AND c.source = %s', :'follows_id') AS follows_row \gset
CALL measure('a row of a table with as many rows, by its primary key', :'single_row', 'liked', '', :runs);
CALL measure('how many like a post, counted, with the number of the source', :'likes_row', 'liked', '1.2 times the row before', :runs);
CALL measure('the same with a look-up of the source', :'likes_row_of', 'liked', '', :runs);
CALL measure('the same by `atproto.backlink_count()`', $$atproto.backlink_count(r.target, 'app.bsky.feed.like:subject.uri')$$, 'liked', '', :runs);
CALL measure('the followers of the account with the most, counted', :'follows_row', $$(SELECT 'at://did:plc:famousfamousfamousfamous'::aturi FROM generate_series(1, 1000)) v (target)$$, '1.2 times the row before', :runs);
CALL measure('the same by `atproto.backlink_count()`', $$atproto.backlink_count(r.target, 'app.bsky.graph.follow:subject')$$, $$(SELECT 'at://did:plc:famousfamousfamousfamous'::aturi FROM generate_series(1, 1000)) v (target)$$, '', :runs);

-- A popular post: 100,000 likes in a minute, in the transactions of a consumer (batch_delay = 50ms), beside 19 other targets in each.
CREATE TABLE others AS SELECT row_number() OVER () AS k, target, source FROM atproto.link_count WHERE n < 50 LIMIT 20000;
CREATE INDEX ON others (k);
CREATE PROCEDURE popular(id int) LANGUAGE plpgsql AS $$
DECLARE
	before bigint = pg_relation_size('atproto.link_count');
BEGIN
	FOR i IN 1..1200 LOOP
		INSERT INTO atproto.link_count AS c (target, source, n)
		SELECT * FROM (SELECT 'at://did:plc:famousfamousfamousfamous/app.bsky.feed.post/popular'::aturi, id, 83
			UNION ALL SELECT target, source, 1 FROM others WHERE k % 1000 = i % 1000 AND k <= 19000) n (target, source, n) ORDER BY 1, 2
		ON CONFLICT (target, source) DO UPDATE SET n = c.n + excluded.n;
		COMMIT;
	END LOOP;
	INSERT INTO result (what, value, wanted) VALUES ('the table after 100,000 likes of a post, and 22,800 of others, in 1,200 transactions, divided by before',
		round(pg_relation_size('atproto.link_count')::numeric / before, 2)::text, 'at most 2');
END $$;
CALL popular(:likes_id);

-- Notifications are one range of the key, and nothing else is read.
CREATE FUNCTION notification_plan() RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	plan jsonb;
BEGIN
	EXECUTE format('EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT json) SELECT source, rkey, did FROM atproto.link WHERE target <@ %L::aturi', (SELECT target FROM known WHERE n = 500)) INTO plan;
	plan := plan->0->'Plan';
	RETURN format('%s, %s links, %s rows looked up in the table, %s pages read', plan->>'Node Type', plan->>'Actual Rows', plan->>'Heap Fetches',
		(plan->>'Shared Hit Blocks')::int + (plan->>'Shared Read Blocks')::int);
END $$;
INSERT INTO result (what, value, wanted) VALUES ('the plan of `target <@ …`', notification_plan(), 'Index Only Scan');

SELECT format('| %s | %s | %s |', what, value, wanted) FROM result ORDER BY n;
