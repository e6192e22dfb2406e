-- See audit.sh.
\ir repositories.sql

CREATE UNLOGGED TABLE made.record AS
SELECT r.did, made.collection(i) AS collection, made.rkey(i) AS rkey,
	('\x01711220' || sha256(decode(lpad(to_hex(i), 16, '0'), 'hex')))::cidlink AS cid,
	made.value(i) AS value
FROM (SELECT ('did:plc:' || rpad(translate(md5(n::text), '0189', 'wxyz'), 24, 'a'))::did AS did, n FROM generate_series(0, :repos) n) r,
	generate_series(1, CASE r.n WHEN 0 THEN :records ELSE 430 END) i;
CREATE TABLE made.large AS SELECT did FROM made.record GROUP BY did ORDER BY count(*) DESC LIMIT 1;

CALL made.lay_out();
INSERT INTO export.repo (did, rev, data) SELECT DISTINCT did, '3mzzzzzzzzz22'::atproto.tid, ('\x01711220' || sha256(''))::cidlink FROM made.record;
-- the roots are as they are: what is measured is how long it takes to know that
UPDATE export.repo p SET data = (atproto.audit(p.did, 'export')).root;
INSERT INTO scattered.repo (did, rev, data) SELECT did, rev, data FROM export.repo;
VACUUM (FREEZE, ANALYZE) export.record, export.repo, scattered.record, scattered.repo;

CREATE PROCEDURE made.measure(layout text) LANGUAGE plpgsql AS $$
DECLARE
	began float8;
	n bigint;
	equal boolean;
	large did := (SELECT did FROM made.large);
BEGIN
	-- the small ones are audited together, as they come; the large one is not there
	began := made.cpu();
	SELECT sum(a.records), bool_and(a.equal) INTO n, equal FROM made.large, LATERAL atproto.audit(did, layout) a;
	INSERT INTO made.time VALUES ('one audit', layout, made.cpu() - began, n);
	IF NOT equal THEN RAISE 'not equal'; END IF;
	began := made.cpu();
	EXECUTE format('SELECT count(cid) FROM %I.record WHERE did = $1', layout) INTO n USING large;
	INSERT INTO made.time VALUES ('one count', layout, made.cpu() - began, n);
	EXECUTE format('UPDATE %I.repo SET sync = ''partial''', layout);
	began := made.cpu();
	EXECUTE format('CALL atproto.audit_all(%L)', layout);
	EXECUTE format('SELECT count(*) FROM %I.record', layout) INTO n;
	INSERT INTO made.time VALUES ('all audit', layout, made.cpu() - began, n);
	EXECUTE format('SELECT bool_and(sync = ''synchronized'') FROM %I.repo', layout) INTO equal;
	IF NOT equal THEN RAISE 'not synchronized'; END IF;
	began := made.cpu();
	EXECUTE format('SELECT count(cid) FROM %I.record', layout) INTO n;
	INSERT INTO made.time VALUES ('all count', layout, made.cpu() - began, n);
END $$;
SELECT format('CALL made.measure(%L)', layout) FROM generate_series(0, :runs), unnest('{export,scattered}'::text[]) layout \gexec

SELECT format('| %s, %s | %s | %s | %s | %s |',
	CASE w WHEN 'one' THEN 'one repository, `audit()`' ELSE 'all, `audit_all()`' END,
	CASE a.layout WHEN 'export' THEN 'rows as an export leaves them' ELSE 'rows scattered' END,
	to_char(a.rows, 'FM999,999,999'), to_char(a.rows / a.seconds, 'FM999,999,999'), to_char(c.rows / c.seconds, 'FM999,999,999'),
	to_char(c.seconds / a.seconds, 'FM990.00'))
FROM unnest('{one,all}'::text[]) w JOIN made.median a ON a.what = w || ' audit' JOIN made.median c ON c.what = w || ' count' AND c.layout = a.layout
ORDER BY w DESC, a.layout;
