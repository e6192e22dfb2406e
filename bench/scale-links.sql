-- What bench/scale.sh measures of link.
CREATE SCHEMA grown;
SET search_path = grown, public;
SELECT atproto.create_tables('grown');
INSERT INTO link_source (id, collection, path) VALUES
	(1, 'app.bsky.feed.like', 'subject.uri'), (2, 'app.bsky.feed.repost', 'subject.uri'), (3, 'app.bsky.graph.follow', 'subject');

-- Links as they come: of 50 there are 40 likes, 6 reposts and 4 follows.  One post of a thousand rows is
-- what others like, the later ones more often; one link of a hundred follows the first account.
CREATE FUNCTION links(first bigint, last bigint)
RETURNS TABLE (n bigint, target aturi, source int, rkey recordkey, did did) LANGUAGE sql STABLE
BEGIN ATOMIC
	SELECT s.n,
		CASE WHEN s.n % 100 = 99 THEN aturi(account(0))
			WHEN s.n % 50 >= 46 THEN aturi(account((s.n / 430 * power(fraction(s.n, 10), 3))::bigint))
			ELSE aturi(author_of(post), 'app.bsky.feed.post'::nsid, key_of(post)::recordkey) END,
		CASE WHEN s.n % 50 < 40 THEN 1 WHEN s.n % 50 < 46 THEN 2 ELSE 3 END,
		key_of(s.n)::recordkey, author_of(s.n)
	FROM generate_series(first, last) s (n),
		LATERAL (SELECT (s.n / 1000 * (1 - power(fraction(s.n, 5), 4) / 2))::bigint * 1000 + s.n % 7 AS post OFFSET 0) p;
END;

CREATE PROCEDURE fill_links(millions int) LANGUAGE plpgsql AS $$
DECLARE
	started float8 := busy();
BEGIN
	TRUNCATE link;
	ALTER TABLE link DROP CONSTRAINT link_pkey;
	FOR m IN 0..millions - 1 LOOP
		EXECUTE format('INSERT INTO link SELECT target, source, rkey, did FROM links(%s, %s)', m * 1000000::bigint + 1, (m + 1) * 1000000::bigint);
	END LOOP;
	INSERT INTO result VALUES (millions, 3, 'filling: rows made and written, µs a row', (busy() - started) / 1000 / millions);
	started := busy();
	ALTER TABLE link ADD CONSTRAINT link_pkey PRIMARY KEY (target, source, rkey, did) WITH (fillfactor = 70);
	INSERT INTO result VALUES (millions, 4, 'filling: index of the key, µs a row', (busy() - started) / 1000 / millions);
END $$;

CREATE PROCEDURE choose_links(millions int, following int) LANGUAGE plpgsql AS $$
DECLARE
	rows bigint := millions * 1000000::bigint;
BEGIN
	INSERT INTO result VALUES
		(millions, 1, 'table, bytes a link', pg_table_size('link') / rows),
		(millions, 2, 'index of the key, bytes a link', pg_relation_size('link_pkey') / rows);
	EXECUTE format('CREATE TABLE public.fresh AS SELECT * FROM links(%s, %s)', rows + 1, rows + following);
	CREATE INDEX ON fresh (n);
	-- posts and accounts that somebody has linked to, all over the table
	EXECUTE format('CREATE TABLE public.probe AS SELECT row_number() OVER () AS n, l.target, l.source
		FROM generate_series(8, %s, %s) g, LATERAL (SELECT * FROM links(g / 50 * 50 + 1, g / 50 * 50 + 1)) l', rows, rows / 1000);
	ANALYZE fresh, probe;
END $$;

CREATE PROCEDURE insert_links(millions int, following int) LANGUAGE plpgsql AS $$
DECLARE
	there bigint := millions * 1000000::bigint;
	started float8 := busy();
	lsn pg_lsn := pg_current_wal_lsn();
BEGIN
	FOR i IN there + 1..there + following BY 4096 LOOP
		INSERT INTO link SELECT target, source, rkey, did FROM fresh WHERE n BETWEEN i AND i + 4095 ORDER BY 1, 2, 3, 4;
		COMMIT;
	END LOOP;
	INSERT INTO result VALUES
		(millions, 6, 'next links, by INSERT, µs a link', (busy() - started) * 1000 / following),
		(millions, 7, '– log, bytes a link', (pg_current_wal_lsn() - lsn) / following);
END $$;

CREATE PROCEDURE read_links(millions int) LANGUAGE plpgsql AS $$
BEGIN
	SET LOCAL enable_hashjoin = off;
	SET LOCAL enable_mergejoin = off;
	CALL measure(millions, 10, 'the 50 newest likers of a post, µs',
		'SELECT count(l.did) FROM probe p, LATERAL (SELECT did, rkey FROM link l WHERE l.target = p.target AND l.source = 1 ORDER BY rkey DESC, did DESC LIMIT 50) l', 1000);
	CALL measure(millions, 11, 'how many like a post, µs',
		'SELECT sum(l.n) FROM probe p, LATERAL (SELECT count(*) AS n FROM link l WHERE l.target = p.target AND l.source = 1) l', 1000);
	INSERT INTO result SELECT millions, 11.5, '– so many do, on average', avg(l.n) FROM probe p, LATERAL (SELECT count(*) AS n FROM link l WHERE l.target = p.target AND l.source = 1) l;
	CALL measure(millions, 12, 'the 50 newest followers of whom one link of a hundred leads to, µs',
		'SELECT did, rkey FROM link WHERE target = aturi(account(0)) AND source = 3 ORDER BY rkey DESC, did DESC LIMIT 50');
	CALL measure(millions, 13, 'how many they are, ms for a million', 'SELECT count(*) FROM link WHERE target = aturi(account(0)) AND source = 3', 10 * millions, false);
	DROP TABLE probe, fresh;
END $$;
