-- Input and output of the identifier types: what each accepts, and which rule
-- each refusal names, at which byte.  Rule ids are those of the specification.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;
SET TimeZone = 'UTC';

-- The value as text, or the error: SQLSTATE and DETAIL.
CREATE FUNCTION pg_temp.try(type text, input text) RETURNS text LANGUAGE plpgsql AS $$
DECLARE
	result text;
	detail text;
	soft text;
BEGIN
	-- try_did() and its like give the same, or NULL for an error
	IF type !~ '[(]' THEN
		EXECUTE format('SELECT try_%s(%L)::text', replace(type, 'atproto.', ''), input) INTO soft;
	END IF;
	EXECUTE format('SELECT %L::%s::text', input, type) INTO result;
	IF type !~ '[(]' AND soft IS DISTINCT FROM result THEN
		RETURN 'not what try_ gives: ' || coalesce(soft, 'NULL');
	END IF;
	RETURN CASE WHEN result = input THEN 'ok' ELSE 'ok: ' || result END;
EXCEPTION WHEN OTHERS THEN
	GET STACKED DIAGNOSTICS detail = PG_EXCEPTION_DETAIL;
	RETURN SQLSTATE || ' ' || detail || coalesce(' but try_ gives ' || soft, '');
END $$;

-- DIDs
SELECT rule, input, pg_temp.try('did', input) FROM (VALUES
	('I-21', 'did:plc:ewvi7nxzyoun6zhxrhs64oiz'),
	('I-21', 'did:web:user.example.com'),
	('I-21', 'did:method:val:two'),
	('I-21', 'did:m:v'),
	('I-21', 'did:method::::val'),
	('I-21', 'did:method:-:_:.'),
	('I-21', 'did:web:localhost%3A1234'),
	('I-21', 'did:method:val%BB'),
	('I-24', 'did:plc:EWVI7NXZYOUN6ZHXRHS64OIZ'),
	('I-21', 'did:METHOD:val'),
	('I-21', 'did:m123:val'),
	('I-21', 'DID:method:val'),
	('I-21', 'did:method:'),
	('I-20', 'did:method:val:'),
	('I-20', 'did:method:val%'),
	('D9', 'did:method:val%zz'),
	('I-21', 'did:method:val/two'),
	('I-21', 'did:method:val?two'),
	('I-21', 'did:method:val#two'),
	('I-20', 'did:plc'),
	('I-20', ''),
	('I-20', ' did:m:v'),
	('I-20', 'did:m:v '),
	('I-20', 'did:m:é')) v (rule, input);
SELECT rule, pg_temp.try('did', 'did:x:' || repeat('a', n)) = 'ok' AS ok
FROM (VALUES ('I-20', 2042), ('I-20', 2043)) v (rule, n);

-- handles
SELECT rule, input, pg_temp.try('handle', input) FROM (VALUES
	('I-10', 'jay.bsky.social'),
	('I-10', '8.cn'),
	('I-10', 'name.t--t'),
	('D20', 'XX.LCS.MIT.EDU'),
	('I-14', 'xn--notarealidn.com'),
	('I-13', 'handle.invalid'),
	('I-11', '@user.example.com'),
	('I-11', '127.0.0.1'),
	('I-11', '::1'),
	('I-11', 'john.0'),
	('I-11', 'cn.8'),
	('I-11', 'org'),
	('I-11', 'name.org.'),
	('I-11', 'xn--bcher-.tld'),
	('I-10', '.name.org'),
	('I-10', 'a..b'),
	('I-10', 'jo_hn.test'),
	('I-14', 'jôhn.test'),
	('I-10', 'john.test '),
	('I-10', '')) v (rule, input);
SELECT rule, pg_temp.try('handle', repeat(repeat('a', 60) || '.', 4) || repeat('b', n)) = 'ok' AS ok
FROM (VALUES ('I-10', 9), ('I-10', 10)) v (rule, n);

-- NSIDs
SELECT rule, input, pg_temp.try('nsid', input) FROM (VALUES
	('I-03', 'com.example.fooBar'),
	('I-03', 'net.users.bob.ping'),
	('I-03', 'a-0.b-1.c'),
	('I-03', 'a.b.c'),
	('I-03', 'com.example.fooBarV2'),
	('I-03', 'cn.8.lex.stuff'),
	('I-03', 'one.2.three'),
	('I-04', 'COM.Example.fooBar'),
	('I-03', 'com.exaéple.thing'),
	('I-03', 'com.example'),
	('I-03', 'com.example.3'),
	('I-03', 'com.example.foo.*'),
	('I-03', 'a-0.b-1.c-3'),
	('I-03', '1.0.0.127.record'),
	('I-03', 'com.example-.foo'),
	('I-07', 'com.example.foo#main'),
	('I-01', 'com..foo.bar'),
	('I-01', '')) v (rule, input);
SELECT rule, pg_temp.try('nsid', repeat(repeat('a', 62) || '.', 5) || repeat('b', n)) = 'ok' AS ok
FROM (VALUES ('D10', 2), ('I-01', 3)) v (rule, n);

-- record keys
SELECT rule, input, pg_temp.try('recordkey', input) FROM (VALUES
	('K-05', '3jui7kd54zh2y'),
	('K-05', 'self'),
	('K-05', 'example.com'),
	('K-05', '~1.2-3_'),
	('K-05', 'dHJ1ZQ'),
	('K-05', '_'),
	('D2', 'pre:fix'),
	('D2', 'literal:self'),
	('D2', ':'),
	('K-05', '-'),
	('K-03', '...'),
	('K-04', 'SELF'),
	('K-03', '.'),
	('K-03', '..'),
	('K-06', 'alpha/beta'),
	('K-06', '#extra'),
	('K-06', '@handle'),
	('K-06', 'any space'),
	('K-06', 'any+space'),
	('K-06', 'number[3]'),
	('K-06', 'number(3)'),
	('K-06', '"quote"'),
	('K-06', 'dHJ1ZQ=='),
	('K-06', '%30'),
	('K-02', '')) v (rule, input);
SELECT rule, pg_temp.try('recordkey', repeat('a', n)) = 'ok' AS ok
FROM (VALUES ('K-02', 512), ('K-02', 513)) v (rule, n);

-- TIDs
SELECT rule, input, pg_temp.try('atproto.tid', input) FROM (VALUES
	('T-05', '2222222222222'),
	('T-05', 'bzzzzzzzzzzzz'),
	('D3', 'j222222222222'),
	('D3', 'jzzzzzzzzzzzz'),
	('T-06', '3jwdwj2ctlk26'),
	('T-07', 'zzzzzzzzzzzzz'),
	('T-07', 'kjzfcijpj2z2a'),
	('T-07', '3jzfcijpj2z21'),
	('T-07', '0000000000000'),
	('T-02', '3jzf-cij-pj2z-2a'),
	('T-02', '3JZFCIJPJ2Z2A'),
	('T-02', '3jzfcijpj2z2aa'),
	('T-02', '3jzfcijpj2z2'),
	('T-02', '')) v (rule, input);

-- CIDs
SELECT rule, input, pg_temp.try('cidlink', input) FROM (VALUES
	('B-44', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2a'),
	('D11', 'bafybeigdyrzt5sfp7udm7hu76uh7y26nf3efuylqabf3oclgtqy55fbzdi'),
	('B-41', 'QmbWqxBEKC3P8tqsKc98xmWNzrzDtRLMiMPL8wBuTGsMnR'),
	('B-40', 'BAFYREIDFAYVFUWQA7QLNOPDJIQRXZS6BLMOEU4RUJCJTNCI5BELUDIRZ2A'),
	('B-40', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2'),
	('B-40', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2aa'),
	('B-40', 'bafyreidfayvfuwqa7qlnopdjiqrxzs6blmoeu4rujcjtnci5beludirz2b'),
	('B-40', 'b'),
	('B-40', '')) v (rule, input);

-- AT URIs, general syntax
SELECT rule, input, pg_temp.try('aturi', input) FROM (VALUES
	('A-19', 'at://foo.com/com.example.foo/123'),
	('A-19', 'at://foo.com/example/123'),
	('A-21', 'at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26'),
	('A-21', 'at://did:plc:44ybard66vv44zksje25o7dz/app.bsky.feed.post/3jwdwj2ctlk26?a=b#/c/0'),
	('A-04', 'at://example.com:3000'),
	('A-05', 'at://computer'),
	('A-07', 'at://foo%24bar.com'),
	('A-11', 'at://foo.com/%2f'),
	('A-12', 'at://foo.com/a/b/c/d'),
	('A-14', 'at://foo.com/./com.example.foo/..'),
	('A-15', 'at://foo.com?'),
	('A-15', 'at://foo.com?a=b/c?d'),
	('A-16', 'at://foo.com#/'),
	('A-16', 'at://foo.com#/a/0'),
	('A-01', 'AT://foo.com'),
	('A-01', 'at:/foo.com'),
	('A-01', 'at:foo.com'),
	('A-01', '//foo.com'),
	('A-01', ' at://foo.com'),
	('A-01', ''),
	('A-02', 'at://'),
	('A-02', 'at:///com.example.foo/1'),
	('A-03', 'at://@handle.example.com'),
	('A-03', 'at://user:pass@foo.com'),
	('A-07', 'at://foo$bar.com'),
	('A-08', 'at://did:plc:'),
	('A-08', 'at://did:plc'),
	('A-08', 'at://DID:plc:abc'),
	('A-08', 'at://did:PLC:abc'),
	('A-08', 'at://did:m123:val'),
	('A-09', 'at://:3000'),
	('A-09', 'at://foo.com:'),
	('A-09', 'at://:/did:plc:asdf123'),
	('A-10', 'at://foo.com/a b'),
	('A-10', 'at://foo.com/a|b'),
	('A-10', 'at://foo.com/é'),
	('A-11', 'at://foo.com/%'),
	('A-11', 'at://foo.com/%2'),
	('A-11', 'at://foo.com/%zz'),
	('A-12', 'at://foo.com//a'),
	('A-12', 'at://foo.com/a//b'),
	('A-13', 'at://foo.com/'),
	('A-13', 'at://foo.com/a/'),
	('A-13', 'at://foo.com/?x'),
	('A-13', 'at://foo.com/a/#/f'),
	('A-16', 'at://foo.com#'),
	('A-16', 'at://foo.com##'),
	('A-16', 'at://foo.com#x'),
	('A-16', 'at://foo.com#/a#/b'),
	('A-16', 'at://foo.com#/a b'),
	('A-18', '../c/r'),
	('A-18', '/c/r'),
	('A-20', 'at://foo.com '),
	('A-20', E'at://foo.com\n')) v (rule, input);
SELECT rule, pg_temp.try('aturi', 'at://a/' || repeat('b', n)) = 'ok' AS ok
FROM (VALUES ('A-17', 8185), ('A-17', 8186)) v (rule, n);

-- NOSH URIs
SELECT rule, input, pg_temp.try('noshuri', input) FROM (VALUES
	('N-04', 'nosh://1673/nosh.server.buyer.address/3jwdwj2ctlk26'),
	('N-04', 'nosh://0xb794f5ea0ba39494ce839613fffba74279579268/nosh.server.buyer.address/3jwdwj2ctlk26'),
	('N-04', 'nosh://foo.com/com.example.foo/123'),
	('N-05', 'nosh://foo.com/example/123'),
	('N-05', 'nosh://computer'),
	('N-05', 'nosh://example.com:3000'),
	('N-06', 'nosh://foo.com/'),
	('N-06', 'nosh://user:pass@foo.com'),
	('N-01', 'nosh://@1673'),
	('N-01', 'NOSH://1673'),
	('N-01', 'nosh:///a'),
	('N-10', 'at://foo.com')) v (rule, input);

-- A long value is cut in the message; the byte is still that of the whole.
\set VERBOSITY default
SELECT ('at://foo.com/' || repeat('a', 1000) || ' ')::aturi;
SELECT (repeat('é', 1000))::did;

-- The trap: an unqualified tid is PostgreSQL's own type.
CREATE TEMP TABLE trap (a tid, b atproto.tid);
SELECT attname, atttypid::regtype FROM pg_attribute
WHERE attrelid = 'trap'::regclass AND attnum > 0 ORDER BY attnum;
SELECT '3jwdwj2ctlk26'::tid;
SET search_path = atproto, public;
SELECT '3jwdwj2ctlk26'::tid;
RESET search_path;
SELECT '3jwdwj2ctlk26'::atproto.tid;
