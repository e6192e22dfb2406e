-- See exports.sh.
SET client_min_messages = warning;
CREATE EXTENSION atproto;
CREATE SCHEMA made;
\o /dev/null
SELECT atproto.create_tables('atproto');
\o
-- it is never connected
INSERT INTO atproto.subscription (name, url, enabled) VALUES ('bench', 'wss://localhost:1', false);
CREATE UNLOGGED TABLE made.export (size text, did did, car bytea);
-- or each run would unpack them
ALTER TABLE made.export ALTER car SET STORAGE external;
INSERT INTO made.export SELECT (regexp_match(f, '^(\w+)-'))[1] AS size, (regexp_match(f, '-(.*)\.car$'))[1]::did AS did, pg_read_binary_file(:'dir' || '/' || f) AS car FROM pg_ls_dir(:'dir') f;
CREATE TABLE made.time (what text, size text, seconds float8, records bigint);

-- Seconds that this process has spent on a processor.
CREATE FUNCTION made.cpu() RETURNS float8 LANGUAGE sql AS $$
	SELECT split_part(pg_read_file('/proc/' || pg_backend_pid() || '/schedstat'), ' ', 1)::float8 / 1e9 $$;
CREATE PROCEDURE made.measure(size text) LANGUAGE plpgsql AS $$
DECLARE
	began float8;
	seconds float8 := 0;
	n bigint;
	made bigint;
	d did;
	c bytea;
BEGIN
	TRUNCATE atproto.record, atproto.repo;
	began := made.cpu();
	SELECT sum(l.created) INTO made FROM made.export e, atproto.load_car(e.did, e.car) l WHERE e.size = measure.size;
	INSERT INTO made.time VALUES ('new', size, made.cpu() - began, made);
	COMMIT;
	-- the key is somebody else's, which is found out when the tree has been walked
	FOR d, c IN SELECT did, car FROM made.export x WHERE x.size = measure.size LOOP
		began := made.cpu();
		BEGIN
			PERFORM atproto.load_car(d, c, 'atproto', 'zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme');
		EXCEPTION WHEN invalid_parameter_value THEN
		END;
		seconds := seconds + made.cpu() - began;
	END LOOP;
	INSERT INTO made.time VALUES ('checked', size, seconds, made);
	began := made.cpu();
	SELECT sum(l.same) INTO n FROM made.export e, atproto.load_car(e.did, e.car) l WHERE e.size = measure.size;
	INSERT INTO made.time VALUES ('equal', size, made.cpu() - began, n);
	IF n <> made THEN RAISE 'not equal'; END IF;
	EXECUTE format('COPY atproto.record TO %L', current_setting('data_directory') || '/copied');
	TRUNCATE atproto.record;
	COMMIT;
	began := made.cpu();
	EXECUTE format('COPY atproto.record FROM %L', current_setting('data_directory') || '/copied');
	INSERT INTO made.time VALUES ('copy', size, made.cpu() - began, made);
END $$;
SELECT format('CALL made.measure(%L)', size) FROM generate_series(0, :runs), unnest('{large,small}'::text[]) size \gexec

-- the first run only brings everything into memory
WITH m AS (
	SELECT what, size, percentile_cont(0.5) WITHIN GROUP (ORDER BY seconds) AS seconds, max(records) AS records
	FROM (SELECT *, row_number() OVER (PARTITION BY what, size ORDER BY ctid) AS run FROM made.time) t WHERE run > 1 GROUP BY 1, 2),
b AS (SELECT size, sum(octet_length(car)) / 1e6 AS mb FROM made.export GROUP BY 1)
SELECT format('| %s, %s | %s | %s | %s | %s | %s |',
	CASE m.size WHEN 'large' THEN 'one repository' ELSE 'repositories of 430 records' END,
	CASE m.what WHEN 'new' THEN 'into an empty table' WHEN 'equal' THEN 'all rows equal' ELSE 'only read, hashed, and walked' END,
	to_char(m.records, 'FM999,999,999'), to_char(m.records / m.seconds, 'FM999,999,999'), to_char(b.mb / m.seconds, 'FM999,990'),
	to_char(c.records / c.seconds, 'FM999,999,999'), to_char(c.seconds / m.seconds, 'FM990.00'))
FROM m JOIN b USING (size) JOIN m c ON c.what = 'copy' AND c.size = m.size WHERE m.what <> 'copy' ORDER BY m.size, m.what DESC;
