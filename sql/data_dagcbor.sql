-- DAG-CBOR to jsonb and back: rules B-01 to B-30, as far as SQL sees them.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;

-- jsonb as its bytes, to compare what dagcbor_to_jsonb writes with what jsonb_in makes.
CREATE CAST (jsonb AS bytea) WITHOUT FUNCTION;
RESET client_min_messages;

-- How a statement fails: SQLSTATE, message, detail.
CREATE FUNCTION data_fault(statement text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE detail text;
BEGIN
	EXECUTE statement;
	RETURN 'none';
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN sqlstate || ': ' || sqlerrm || ': ' || detail;
END $$;

-- Each kind of value: as jsonb, the same bytes as from JSON text, and back.
SELECT cbor, j, j::bytea = (j::text::jsonb)::bytea AS same_image, jsonb_to_dagcbor(j) = cbor AS back
FROM (SELECT decode(hex, 'hex') AS cbor, dagcbor_to_jsonb(decode(hex, 'hex')) AS j
	FROM unnest(ARRAY['00', '17', '1818', '19270f', '192710', '1a05f5e100', '1b7fffffffffffffff', '1bffffffffffffffff',
		'20', '39270f', '392710', '3b7fffffffffffffff', '3bffffffffffffffff', '1b8ac7230489e80000',
		'60', '6161', '64f09f9880', '40', '4100', '420001', '43000102', '4400010203', '44fbefbeff',
		'80', '8101', '83010203', '8180', '82f68101', 'a0', 'a1616101', 'a1616180', 'a261610162616102', 'a16000',
		'f4', 'f5', 'f6', 'd82a450001550000']) WITH ORDINALITY u (hex, n) ORDER BY n) s;
SELECT dagcbor_to_jsonb('\xd82a582500017112200000000000000000000000000000000000000000000000000000000000000000');

-- Entries on both sides of each stride of 32, with padding in between.
SELECT bool_and(j::bytea = made::bytea) AS same_image, bool_and(jsonb_to_dagcbor(made) = jsonb_to_dagcbor(j)) AS same_cbor, count(*)
FROM (SELECT made, dagcbor_to_jsonb(jsonb_to_dagcbor(made)) AS j
	FROM generate_series(0, 100) n,
		LATERAL (SELECT jsonb_agg(CASE i % 5 WHEN 0 THEN to_jsonb(i * 9999) WHEN 1 THEN to_jsonb(repeat('x', i))
				WHEN 2 THEN jsonb_build_array(i, 'y') WHEN 3 THEN 'null' ELSE jsonb_build_object('k' || i, -i) END)
			FROM generate_series(1, n) i) a (list),
		LATERAL (SELECT jsonb_object_agg(repeat('k', i % 7) || i, i) FROM generate_series(1, n) i) o (object),
		LATERAL (VALUES (coalesce(list, '[]')), (coalesce(object, '{}'))) v (made)) s;

-- Integers of all lengths, and their neighbours.
SELECT bool_and(j::bytea = made::bytea), count(*)
FROM (SELECT made, dagcbor_to_jsonb(jsonb_to_dagcbor(made)) AS j
	FROM generate_series(0, 19) n, generate_series(-1, 1) d, (VALUES (1), (-1)) s (sign), generate_series(1, 9, 4) f,
		LATERAL (SELECT to_jsonb(trunc(sign * (f * 10::numeric ^ n + d)))) m (made)
	WHERE f * 10::numeric ^ n + d < 18446744073709551615) s;

-- Texts and keys of all lengths; with U+0000 at each place jsonb has none (B-30).
SELECT bool_and(j::bytea = made::bytea) AS same_image, bool_and(jsonb_to_dagcbor(j) = cbor) AS same_cbor, count(*)
FROM (SELECT made, jsonb_to_dagcbor(made) AS cbor, dagcbor_to_jsonb(jsonb_to_dagcbor(made)) AS j
	FROM generate_series(0, 300) n, LATERAL (SELECT left(repeat('0123456789äあ🙂', 30), n)) t (text),
		LATERAL (VALUES (to_jsonb(text)), (jsonb_build_object(text, text, 'k' || text, n, 'kk' || text, jsonb_build_array(text)))) v (made)) s;
SELECT left(fault, 5) AS state, count(*)
FROM generate_series(1, 40) n, generate_series(1, n) i,
	LATERAL (SELECT set_byte(jsonb_to_dagcbor(to_jsonb(repeat('a', n))), length(jsonb_to_dagcbor(to_jsonb(repeat('a', n)))) - i, 0)) t (cbor),
	LATERAL data_fault(format('SELECT dagcbor_to_jsonb(%L)', cbor)) fault
GROUP BY 1;

-- The published fixtures (data-model-fixtures.json).
CREATE TEMP TABLE fixture (json jsonb, cbor bytea, cid text);
INSERT INTO fixture VALUES
	('{"string": "abc", "unicode": "a~öñ©⽘☎𓋓😀👨‍👩‍👧‍👧", "integer": 123, "bool": true, "null": null, "array": ["abc", "def", "ghi"], "object": {"string": "abc", "number": 123, "bool": true, "arr": ["abc", "def", "ghi"]}}',
	 decode('p2Rib29s9WRudWxs9mVhcnJheYNjYWJjY2RlZmNnaGlmb2JqZWN0pGNhcnKDY2FiY2NkZWZjZ2hpZGJvb2z1Zm51bWJlchh7ZnN0cmluZ2NhYmNmc3RyaW5nY2FiY2dpbnRlZ2VyGHtndW5pY29kZXgvYX7DtsOxwqnivZjimI7wk4uT8J+YgPCfkajigI3wn5Gp4oCN8J+Rp+KAjfCfkac=', 'base64'),
	 'bafyreiclp443lavogvhj3d2ob2cxbfuscni2k5jk7bebjzg7khl3esabwq'),
	('{"a": {"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}, "b": {"$bytes": "nFERjvLLiw9qm45JrqH9QTzyC2Lu1Xb4ne6+sBrCzI0"}, "c": {"$type": "blob", "ref": {"$link": "bafkreiccldh766hwcnuxnf2wh6jgzepf2nlu2lvcllt63eww5p6chi4ity"}, "mimeType": "image/jpeg", "size": 10000}}',
	 decode('o2Fh2CpYJQABcRIgZQYqWloA/BbXPGlEI3zLwVscSnI0SJM2iR0JF0GiOdBhYlggnFERjvLLiw9qm45JrqH9QTzyC2Lu1Xb4ne6+sBrCzI1hY6RjcmVm2CpYJQABVRIgQljP/3j2E2l2l1Y/kmyR5dNXTS6iWuftktbr/COjiJ5kc2l6ZRknEGUkdHlwZWRibG9iaG1pbWVUeXBlamltYWdlL2pwZWc=', 'base64'),
	 'bafyreihldkhcwijkde7gx4rpkkuw7pl6lbyu5gieunyc7ihactn5bkd2nm'),
	('{"a": {"b": [{"d": [{"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}, {"$link": "bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a"}], "e": [{"$bytes": "nFERjvLLiw9qm45JrqH9QTzyC2Lu1Xb4ne6+sBrCzI0"}, {"$bytes": "iE+sPoHobU9tSIqGI+309LLCcWQIRmEXwxcoDt19tas"}]}]}}',
	 decode('oWFhoWFigaJhZILYKlglAAFxEiBlBipaWgD8Ftc8aUQjfMvBWxxKcjRIkzaJHQkXQaI50NgqWCUAAXESIGUGKlpaAPwW1zxpRCN8y8FbHEpyNEiTNokdCRdBojnQYWWCWCCcURGO8suLD2qbjkmuof1BPPILYu7Vdvid7r6wGsLMjVggiE+sPoHobU9tSIqGI+309LLCcWQIRmEXwxcoDt19tas=', 'base64'),
	 'bafyreid3imdulnhgeytpf6uk7zahjvrsqlofkmm5b5ub2maw4kqus6jp4i');
SELECT dagcbor_to_jsonb(cbor) = json AS json, dagcbor_to_jsonb(cbor)::bytea = json::bytea AS same_image,
	jsonb_to_dagcbor(json) = cbor AS cbor, cidlink_of(jsonb_to_dagcbor(json))::text = cid AS cid
FROM fixture;

-- What the published lists call valid and invalid, where JSON decides (B-21, B-25).
SELECT jsonb_to_dagcbor(j) FROM unnest(ARRAY['123.0', '1e3', '-0.0', '-0', '{"$bytes": "AA=="}', '{"$bytes": "AA"}', '{"$bytes": ""}',
	'{"$type": "x", "$other": 1}']::jsonb[]) j;
SELECT j, data_fault(format('SELECT jsonb_to_dagcbor(%L)', j)) FROM unnest(ARRAY[
	'123.456', '[1e-1]', '18446744073709551616', '-18446744073709551617', '1e100', '-1e100',
	'{"$bytes": [1, 2, 3]}', '{"$bytes": "AA", "other": "blah"}', '{"$bytes": "A"}', '{"$bytes": "AB"}', '{"$bytes": "A-_A"}',
	'{"$bytes": "AA="}', '{"$bytes": "A==="}', '{"$bytes": "===="}', '{"$link": 1234}', '{"$link": "."}', '{"$link": null}', '{"$link": ""}', '{"$link": {}}',
	'{"$link": "bafkreiccldh766hwcnuxnf2wh6jgzepf2nlu2lvcllt63eww5p6chi4ity", "other": "blah"}', '{"$link": "x", "$bytes": "AA"}']) j;

-- From texts: the same, but for U+0000, and where jsonb makes a choice (J-01 to J-07).
SELECT json_to_dagcbor(json::text::json) = cbor AS cbor FROM fixture;
SELECT j, json_to_dagcbor(j) FROM unnest(ARRAY['123.0', ' {"b": 1, "a": "\u0000", "": []} ', '{"$bytes": "AA=="}', '"\ud83d\ude00"',
	'9223372036854775807', '-9223372036854775808']::json[]) j;
SELECT j, data_fault(format('SELECT json_to_dagcbor(%L)', j)) FROM unnest(ARRAY['123.456', '1e3', '-0', '-0.0', '9223372036854775808', '{"a": 1, "a": 2}',
	'{"a": 1, "\u0061": 2}', '"\ud800"', '{"$link": "."}', '{"$bytes": "AB"}', '{"$bytes": "AA", "a": 1}']) j;
SELECT json_to_dagcbor((repeat('[', 128) || repeat(']', 128))::json) = decode(repeat('81', 127) || '80', 'hex') AS "128";
SELECT data_fault('SELECT json_to_dagcbor((repeat(''['', 129) || repeat('']'', 129))::json)');

-- What is not DAG-CBOR, and what jsonb cannot hold.
SELECT hex, data_fault(format('SELECT dagcbor_to_jsonb(decode(%L, ''hex''))', hex)) FROM unnest(ARRAY[
	'', '1801', '7803616263', '9fff', 'a10000', 'a2616200616100', 'a2616100616100', 'd9002a4100', 'c000', 'd82a4100', 'f7', 'e0', 'f93e00',
	'fb7ff8000000000000', '62c328', '0000', '8201', '9b7fffffffffffffff', '5bffffffffffffffff', '9a05f5e100', 'bb8000000000000000',
	'fb3ff8000000000000', '6100', '63610061', '6361006180', 'a1610000', 'a165246c696e6b6161', 'a166246279746573a0', 'a261610065246c696e6b00']) hex;

-- Nesting, both ways (B-10).
SELECT jsonb_to_dagcbor(json::jsonb) = decode(hex, 'hex') AS "128", dagcbor_to_jsonb(decode(hex, 'hex'))::bytea = json::jsonb::bytea AS back
FROM (VALUES (repeat('81', 127) || '80', repeat('[', 128) || repeat(']', 128)),
	(repeat('a16161', 127) || 'a0', repeat('{"a":', 127) || '{}' || repeat('}', 127)),
	(repeat('81a262616105626262', 63) || '8180', repeat('[{"aa": 5, "bb": ', 63) || '[[]]' || repeat('}]', 63))) v (hex, json);
SELECT data_fault('SELECT dagcbor_to_jsonb(decode(repeat(''81'', 100000), ''hex''))');
SELECT data_fault('SELECT jsonb_to_dagcbor((repeat(''['', 129) || repeat('']'', 129))::jsonb)');
SELECT data_fault('SELECT jsonb_to_dagcbor((repeat(''{"a":'', 129) || ''1'' || repeat(''}'', 129))::jsonb)');

-- Many items: more than the writer has room for at first.
SELECT jsonb_array_length(j), j::bytea = (j::text::jsonb)::bytea AS same_image
FROM dagcbor_to_jsonb(decode('9a00030d40' || repeat('01', 200000), 'hex')) j;
SELECT length(jsonb_to_dagcbor(to_jsonb(repeat('x', 70000)))), length(jsonb_to_dagcbor('""'));

-- NULL in, NULL out; in parallel and in indexes.
SELECT dagcbor_to_jsonb(NULL) IS NULL AND jsonb_to_dagcbor(NULL) IS NULL AND json_to_dagcbor(NULL) IS NULL AND car_roots(NULL) IS NULL AS nulls;
SELECT proname, provolatile, proparallel, proisstrict, proleakproof FROM pg_proc
WHERE proname IN ('dagcbor_to_jsonb', 'jsonb_to_dagcbor', 'json_to_dagcbor', 'car_roots', 'car_blocks', 'car_records', 'frame', 'frame_records')
	AND probin LIKE '%atproto' ORDER BY 1;

DROP FUNCTION data_fault(text);
DROP CAST (jsonb AS bytea);
