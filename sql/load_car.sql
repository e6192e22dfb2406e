-- An export, without network, into tables: R-42 to R-56.  The exports are those of an account with the
-- P-256 key below: (1) four records, (2) one of them gone, one changed, one new, and one that is none.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
CREATE ROLE load_owner;
CREATE SCHEMA load AUTHORIZATION load_owner;
-- it is never connected
INSERT INTO atproto.subscription (name, url, target, owner, enabled) VALUES ('load', 'wss://example.com/xrpc/com.atproto.sync.subscribeRepos', 'load', 'load_owner'::regrole, false);
SELECT atproto.create_tables('load');
GRANT ALL ON ALL TABLES IN SCHEMA load TO load_owner;
GRANT USAGE ON SCHEMA atproto TO load_owner;
GRANT SELECT ON atproto.subscription TO load_owner;
GRANT SELECT, INSERT, UPDATE, DELETE ON atproto.dead_letter, atproto.dead_frame TO load_owner;
RESET client_min_messages;

CREATE FUNCTION load_fault(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text; detail text;
BEGIN
	EXECUTE statement INTO result;
	RETURN coalesce(result, 'NULL');
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN sqlstate || ': ' || sqlerrm || ': ' || detail;
END $$;

CREATE TABLE load_export (n int, car bytea);
INSERT INTO load_export SELECT n, decode(car, 'base64') FROM (VALUES
	(1, 'OqJlcm9vdHOB2CpYJQABcRIg8MxksclnhYOw+r+2XX+ySFHt1eSMia0d3tKAKYZjdeJndmVyc2lvbgHgAQFxEiDwzGSxyWeFg7D6v7Zdf7JIUe3V5IyJrR3e0oAphmN14qZjZGlkeCBkaWQ6cGxjOjMyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMmNyZXZtM21iZDM1NDJrMjMyMmNzaWdYQAwvLhezAREU2thGVShOP3ABKm6235DS509VxH1DAeclPvYtR/EPPL09OOdSo2nzrLi8MmQgpnTDjv41wp+laL1kZGF0YdgqWCUAAXESIDj268HbNcphSpHYy6TEbB+pteWF1t7aizjUlvqAtm3nZHByZXb2Z3ZlcnNpb24DowEBcRIgOPbrwds1ymFKkdjLpMRsH6m15YXW3tqLONSW+oC2beeiYWWBpGFrWBpjb20uZXhhbXBsZS5ub3RlLm1vcmUvc2VsZmFwAGF02CpYJQABcRIgZch4rZ5VJLT4PcPyQe4U+7POzikgUZi7FKesbkWmWIRhdtgqWCUAAXESIFiEsB8Qw4nFlN+mQu7a2EDM5BH3o+TcMafnfmRrQJeQYWz2mgEBcRIgZch4rZ5VJLT4PcPyQe4U+7POzikgUZi7FKesbkWmWISiYWWBpGFrUmNvbS5leGFtcGxlLm5vdGUvYWFwAGF02CpYJQABcRIg6QNJ0eg9f0HVYCgq6t3DpXlK5YxBAJqThKQqLBiqtn1hdtgqWCUAAXESIO3fxCEFdtsZZjGeSS1DCccgkl6p+aCQiI6okCUPq3JFYWz2qAEBcRIg6QNJ0eg9f0HVYCgq6t3DpXlK5YxBAJqThKQqLBiqtn2iYWWCpGFrUmNvbS5leGFtcGxlLm5vdGUvYmFwAGF09mF22CpYJQABcRIgQfqFLzshquRuCMq+SM7BcU0k75OW9DmUHWkcKj+36+mkYWtBY2FwEWF09mF22CpYJQABcRIgiN6AlSf3U5F2o1farchxt+8FlKdzDqf8CRr/g3cFlHJhbPZDAXESIO3fxCEFdtsZZjGeSS1DCccgkl6p+aCQiI6okCUPq3JFomR0ZXh0YWFlJHR5cGVwY29tLmV4YW1wbGUubm90ZUMBcRIgQfqFLzshquRuCMq+SM7BcU0k75OW9DmUHWkcKj+36+miZHRleHRhYmUkdHlwZXBjb20uZXhhbXBsZS5ub3RlQwFxEiCI3oCVJ/dTkXajV9qtyHG37wWUp3MOp/wJGv+DdwWUcqJkdGV4dGFjZSR0eXBlcGNvbS5leGFtcGxlLm5vdGVGAXESIFiEsB8Qw4nFlN+mQu7a2EDM5BH3o+TcMafnfmRrQJeQomR0ZXh0ZG1vcmVlJHR5cGVwY29tLmV4YW1wbGUubm90ZQ=='),
	(2, 'OqJlcm9vdHOB2CpYJQABcRIg6tirkF/rB08OcYj+KPByC03FnOL9BsET4301vV1FjQJndmVyc2lvbgHgAQFxEiDq2KuQX+sHTw5xiP4o8HILTcWc4v0GwRPjfTW9XUWNAqZjZGlkeCBkaWQ6cGxjOjMyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMmNyZXZtM21iZDM1NDJrMjQyMmNzaWdYQBL/Y9fDNiWsNwj0beZHoe3PtWX1EL8/9z4hcoSv8dmjOvTcaR79sviG9ZLvutGVh5eFlx+GUfbmn4xlrJwxh5tkZGF0YdgqWCUAAXESIPHgsQ9NAj7R7qMYxzxNm1EEB6h2yxmSXCFWCwgGBHaaZHByZXb2Z3ZlcnNpb24DowEBcRIg8eCxD00CPtHuoxjHPE2bUQQHqHbLGZJcIVYLCAYEdpqiYWWBpGFrWBpjb20uZXhhbXBsZS5ub3RlLm1vcmUvc2VsZmFwAGF02CpYJQABcRIgOtFZHYihW4nycbGTxCtDrTQdsatD8Tg/HmWPkW8cd7BhdtgqWCUAAXESIFiEsB8Qw4nFlN+mQu7a2EDM5BH3o+TcMafnfmRrQJeQYWz2mgEBcRIgOtFZHYihW4nycbGTxCtDrTQdsatD8Tg/HmWPkW8cd7CiYWWBpGFrUmNvbS5leGFtcGxlLm5vdGUvYWFwAGF02CpYJQABcRIgtoQMPAUGEMOjJOBjAREh2X1YwlKGGCEVK9ggU7HWp7JhdtgqWCUAAXESIO3fxCEFdtsZZjGeSS1DCccgkl6p+aCQiI6okCUPq3JFYWz23gEBcRIgtoQMPAUGEMOjJOBjAREh2X1YwlKGGCEVK9ggU7HWp7KiYWWDpGFrUmNvbS5leGFtcGxlLm5vdGUvY2FwAGF09mF22CpYJQABcRIgocQtSASQd9HO3IbufoH+AZ5/4ju7MIua79Zc25sfyn+kYWtBZGFwEWF09mF22CpYJQABcRIgAsKz+zsmTCa199/bSFWZpuKxrKaHbVnMEDymFj4deHekYWtBZWFwEWF09mF22CpYJQABcRIgsSng5kXwpceuir+v/4IgQd/zUQcv8EMU25qu2BooghBhbPZDAXESIO3fxCEFdtsZZjGeSS1DCccgkl6p+aCQiI6okCUPq3JFomR0ZXh0YWFlJHR5cGVwY29tLmV4YW1wbGUubm90ZUkBcRIgocQtSASQd9HO3IbufoH+AZ5/4ju7MIua79Zc25sfyn+iZHRleHRnY2hhbmdlZGUkdHlwZXBjb20uZXhhbXBsZS5ub3RlRgFxEiBYhLAfEMOJxZTfpkLu2thAzOQR96Pk3DGn535ka0CXkKJkdGV4dGRtb3JlZSR0eXBlcGNvbS5leGFtcGxlLm5vdGVDAXESIALCs/s7Jkwmtfff20hVmabisaymh21ZzBA8phY+HXh3omR0ZXh0YWRlJHR5cGVwY29tLmV4YW1wbGUubm90ZTIBcRIgsSng5kXwpceuir+v/4IgQd/zUQcv8EMU25qu2BooghChZHRleHRnbm8gdHlwZQ==')) AS e(n, car);
\set did 'did:plc:322222222222222222222222'
\set key 'did:key:zDnaeWX9dpXZ8n7yFqhpZSYp1nyywq3fhyfNQPF2hTpQFHHq4'

-- V-45: the records of an export are what its commit signs.
SELECT n, atproto.repo_root(path, cid ORDER BY path COLLATE "C")::text = (SELECT dagcbor_to_jsonb(block) #>> '{data,$link}' FROM car_blocks(car) WHERE cid = (car_roots(car))[1]) AS root
FROM load_export, LATERAL (SELECT aturi_collection(uri) || '/' || aturi_rkey(uri) AS path, cid FROM car_records(car)) r GROUP BY n, car ORDER BY n;

-- Into empty tables; once more, when not a row is touched; the second; an older one.
SELECT l.* FROM load_export e, atproto.load_car(:'did', e.car, 'load', :'key') l WHERE n = 1;
CREATE TEMP TABLE load_before AS SELECT ctid AS place, xmin::text AS by, did, collection, rkey, cid FROM load.record;
SELECT l.* FROM load_export e, atproto.load_car(:'did', e.car, 'load') l WHERE n = 1;
SELECT count(*) AS touched FROM load.record r FULL JOIN load_before b USING (did, collection, rkey) WHERE (r.ctid, r.xmin::text) IS DISTINCT FROM (b.place, b.by);
SELECT collection, rkey, rev = (SELECT rev FROM load.repo) AS rev, value->>'text' AS text FROM load.record ORDER BY 1, 2;
SELECT l.* FROM load_export e, atproto.load_car(:'did', e.car, 'load') l WHERE n = 2;
SELECT collection, rkey, rev = (SELECT rev FROM load.repo) AS rev, value->>'text' AS text, r.ctid = b.place AS untouched
FROM load.record r LEFT JOIN load_before b USING (did, collection, rkey) ORDER BY 1, 2;
SELECT stage, sqlstate, message, did = :'did' AS did, path, seq FROM atproto.dead_letter WHERE subscription = 'load';
SELECT atproto.retry(id) FROM atproto.dead_letter WHERE subscription = 'load';
SELECT sync, hold, synced_at IS NOT NULL AS synced, rev, first_rev, commit = (SELECT (car_roots(car))[1] FROM load_export WHERE n = 2) AS commit FROM load.repo;
SELECT equal, reason FROM atproto.audit(:'did', 'load');
SELECT load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', car, 'load')) FROM load_export WHERE n = 1;
-- the letter is told again, not twice
SELECT l.* FROM load_export e, atproto.load_car(:'did', e.car, 'load') l WHERE n = 2;
SELECT path FROM atproto.dead_letter WHERE subscription = 'load';

-- What cannot be brought in.
SELECT what, load_fault(format('SELECT atproto.load_car(%L, %L, %L, %L)', did, car, target, key)) FROM load_export, (VALUES
	('another account', 'did:plc:422222222222222222222222', 'load', NULL),
	('another key', :'did', 'load', 'did:key:zQ3shokFTS3brHcDQrn82RUDfCZESWL1ZdCEJwekUDPQiYBme'),
	('no key', :'did', 'load', 'did:key:z'),
	('no such tables', :'did', 'nothing', NULL),
	('null', NULL, 'load', NULL)) AS f(what, did, target, key) WHERE n = 2 ORDER BY 1;
SELECT split_part(load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', substr(car, 1, at), 'load')), ':', 1) AS sqlstate, count(*)
FROM load_export, generate_series(0, length(car) - 1) at WHERE n = 2 GROUP BY 1;
SELECT split_part(load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', set_byte(car, at, get_byte(car, at) # 128), 'load')), ':', 1) AS sqlstate, count(*)
FROM load_export, generate_series(0, length(car) - 1) at WHERE n = 2 GROUP BY 1;
SELECT load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', substr(car, 1, length(car) - 1), 'load')),
	load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', set_byte(car, length(car) - 1, 0), 'load'))
FROM load_export WHERE n = 2;

-- Accounts that are gone, and repositories that wait.
CREATE FUNCTION pg_temp.load_when(state text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE result text;
BEGIN
	EXECUTE 'UPDATE load.repo SET ' || state;
	SELECT load_fault(format('SELECT atproto.load_car(%L, %L, %L)', did, car, 'load')) INTO result FROM load.repo, load_export WHERE n = 2;
	UPDATE load.repo SET active = true, status = NULL, hold = NULL, purge_rev = NULL, deleted_rev = NULL;
	RETURN result;
END $$;
SELECT state, pg_temp.load_when(state) FROM unnest(ARRAY['active = false', $$active = false, status = 'takendown'$$,
	$$hold = 'resync'$$, 'purge_rev = rev', 'deleted_rev = rev', $$refill_by = 'load'$$]) state;
SELECT refill_by FROM load.repo;

-- Filters, and records that the account has not, of collections that it has and of others.
UPDATE atproto.subscription SET collections = '{com.example.note}' WHERE name = 'load';
INSERT INTO load.record SELECT did, c::nsid, k::recordkey, cid, rev, now(), value FROM load.record,
	unnest(ARRAY['com.example.note', 'com.example.other', 'com.example.note.more', 'a.b.c']) c, unnest(ARRAY['-', 'zzz']) k WHERE rkey = 'a';
SELECT l.* FROM load_export e, atproto.load_car(:'did', e.car, 'load') l WHERE n = 2;
SELECT collection, string_agg(rkey::text, ' ' ORDER BY rkey) FROM load.record GROUP BY 1 ORDER BY 1;
UPDATE atproto.subscription SET collections = NULL, actions = '{create,update}' WHERE name = 'load';
SELECT l.* FROM load_export e, atproto.load_car(:'did', e.car, 'load') l WHERE n = 2;
UPDATE atproto.subscription SET actions = NULL WHERE name = 'load';
SELECT l.* FROM load_export e, atproto.load_car(:'did', e.car, 'load') l WHERE n = 2;
SELECT equal, reason FROM atproto.audit(:'did', 'load');

-- As the owner, whoever calls: who is no member cannot; what the owner may not do is not done.
CREATE ROLE load_other;
GRANT USAGE ON SCHEMA atproto TO load_other;
GRANT SELECT ON atproto.subscription TO load_other;
GRANT EXECUTE ON FUNCTION atproto.load_car(did, bytea, name, text) TO load_other;
GRANT SELECT ON load_export TO load_owner, load_other;
SET ROLE load_owner;
SELECT load_fault('SELECT atproto.load_car(NULL, NULL)');
SET ROLE load_other;
SELECT load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', car, 'load')) FROM load_export WHERE n = 2;
RESET ROLE;
SELECT relname, relowner::regrole FROM pg_class WHERE oid = 'load.record'::regclass;

-- Triggers, which are the owner's; events, with what was there before.
UPDATE atproto.subscription SET events = 'keep' WHERE name = 'load';
DELETE FROM load.record WHERE rkey = 'a';
UPDATE load.record SET cid = (SELECT (car_roots(car))[1] FROM load_export WHERE n = 2) WHERE rkey = 'd';
INSERT INTO load.record SELECT did, collection, 'gone'::recordkey, cid, rev, now(), value FROM load.record WHERE rkey = 'c';
CREATE TABLE load_seen (who name, op text, rkey text);
GRANT INSERT ON load_seen TO load_owner;
CREATE FUNCTION load_see() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	INSERT INTO public.load_seen VALUES (current_user, TG_OP, coalesce(NEW.rkey, OLD.rkey)::text);
	RETURN coalesce(NEW, OLD);
END $$;
CREATE TRIGGER see BEFORE INSERT OR UPDATE OR DELETE ON load.record FOR EACH ROW EXECUTE FUNCTION load_see();
SELECT l.* FROM load_export e, atproto.load_car(:'did', e.car, 'load') l WHERE n = 2;
SELECT * FROM load_seen ORDER BY op, rkey;
SELECT seq, action, rkey, cid IS NOT NULL AS cid, value->>'text' AS text, old_cid IS NOT NULL AS old_cid, old_value->>'text' AS old_text
FROM load.record_event ORDER BY action, rkey;
SELECT equal, reason FROM atproto.audit(:'did', 'load');

-- A table of an earlier version.
DELETE FROM load.record_event;
ALTER TABLE load.record_event ALTER seq SET NOT NULL;
SELECT load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', car, 'load')) FROM load_export WHERE n = 2;
ALTER TABLE load.record_event ALTER seq DROP NOT NULL;

-- A trigger cannot bring in another.
CREATE FUNCTION load_again() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
	PERFORM atproto.load_car(OLD.did, (SELECT car FROM public.load_export WHERE n = 2), 'load');
	RETURN OLD;
END $$;
CREATE TRIGGER again BEFORE DELETE ON load.record FOR EACH ROW EXECUTE FUNCTION load_again();
INSERT INTO load.record SELECT did, collection, 'gone'::recordkey, cid, rev, now(), value FROM load.record WHERE rkey = 'c';
SELECT load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', car, 'load')) FROM load_export WHERE n = 2;

-- At level full: by the account's key, or one that is given.
DROP TRIGGER again ON load.record;
SET client_min_messages = warning;
UPDATE atproto.subscription SET verify = 'full' WHERE name = 'load';
RESET client_min_messages;
SELECT verified FROM load.repo;
SELECT load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', car, 'load')) FROM load_export WHERE n = 2;
INSERT INTO atproto.identity (did, state, key, pds, resolved_at, asked_at) SELECT :'did', 'good', decode('e7010279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798', 'hex'), 'pds.example.com', now(), now();
SELECT load_fault(format('SELECT atproto.load_car(%L, %L, %L)', :'did', car, 'load')) FROM load_export WHERE n = 2;
SELECT l.deleted > 0 AS given FROM load_export e, atproto.load_car(:'did', e.car, 'load', :'key') l WHERE n = 2;
SELECT verified FROM load.repo;
DELETE FROM atproto.identity WHERE did = :'did';

SET client_min_messages = warning;
DELETE FROM atproto.subscription WHERE name = 'load';
DROP SCHEMA load CASCADE;
DROP TABLE load_export, load_seen;
DROP FUNCTION load_fault(text), load_see(), load_again();
DROP OWNED BY load_owner, load_other;
DROP ROLE load_owner, load_other;
