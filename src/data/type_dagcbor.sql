-- dagcbor: a value of the data model, packed (type_dagcbor.c, dagcbor_field.c)

CREATE TYPE dagcbor;

CREATE FUNCTION dagcbor_in(cstring) RETURNS dagcbor
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_in' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_in(cstring) IS 'I/O';

CREATE FUNCTION dagcbor_out(dagcbor) RETURNS cstring
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_out' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_out(dagcbor) IS 'I/O';

CREATE FUNCTION dagcbor_recv(internal) RETURNS dagcbor
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_recv' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_recv(internal) IS 'I/O';

CREATE FUNCTION dagcbor_send(dagcbor) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_send' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_send(dagcbor) IS 'I/O';

CREATE TYPE dagcbor (
	INPUT = dagcbor_in,
	OUTPUT = dagcbor_out,
	RECEIVE = dagcbor_recv,
	SEND = dagcbor_send,
	INTERNALLENGTH = VARIABLE,
	ALIGNMENT = int4,
	STORAGE = extended
);
COMMENT ON TYPE dagcbor IS 'AT Protocol: a value of the data model, such as a record, in fewer bytes than as jsonb or as DAG-CBOR. Experimental.';

-- Casts.

CREATE FUNCTION dagcbor(bytea) RETURNS dagcbor
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_of_bytea' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dagcbor(bytea) IS 'the value that these bytes, DAG-CBOR, encode';

CREATE FUNCTION dagcbor(jsonb) RETURNS dagcbor
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_of_jsonb' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dagcbor(jsonb) IS 'the value that the jsonb says in the data model, as jsonb_to_dagcbor() reads it';

CREATE FUNCTION dagcbor_as_bytea(dagcbor) RETURNS bytea
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_as_bytea' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION dagcbor_as_bytea(dagcbor) IS 'the DAG-CBOR of the value; its hash is in the CID';

CREATE FUNCTION dagcbor_as_jsonb(dagcbor) RETURNS jsonb
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_as_jsonb' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dagcbor_as_jsonb(dagcbor) IS
	'the value as dagcbor_to_jsonb() gives it; NULL where jsonb cannot hold the value: U+0000, a float, an object with the key $link or $bytes';

CREATE FUNCTION dagcbor_as_json(dagcbor) RETURNS json
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_as_json' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10;
COMMENT ON FUNCTION dagcbor_as_json(dagcbor) IS
	'the value as JSON, never NULL: also U+0000, floats, and an object with the key $link or $bytes, which is written as it is';

CREATE CAST (bytea AS dagcbor) WITH FUNCTION dagcbor(bytea);
COMMENT ON CAST (bytea AS dagcbor) IS 'the value that these bytes, DAG-CBOR, encode';

CREATE CAST (jsonb AS dagcbor) WITH FUNCTION dagcbor(jsonb) AS ASSIGNMENT;
COMMENT ON CAST (jsonb AS dagcbor) IS 'the value that the jsonb says in the data model';

CREATE CAST (dagcbor AS bytea) WITH FUNCTION dagcbor_as_bytea(dagcbor) AS ASSIGNMENT;
COMMENT ON CAST (dagcbor AS bytea) IS 'the DAG-CBOR of the value';

CREATE CAST (dagcbor AS jsonb) WITH FUNCTION dagcbor_as_jsonb(dagcbor) AS IMPLICIT;
COMMENT ON CAST (dagcbor AS jsonb) IS 'the value as jsonb; NULL where jsonb cannot hold the value';

CREATE CAST (dagcbor AS json) WITH FUNCTION dagcbor_as_json(dagcbor) AS ASSIGNMENT;
COMMENT ON CAST (dagcbor AS json) IS 'the value as JSON, never NULL';

-- Equality and hash, for DISTINCT, GROUP BY and UNION.  There is no order: that of jsonb means nothing either.  The functions
-- are not LEAKPROOF, because a damaged value raises an error.

CREATE FUNCTION dagcbor_eq(dagcbor, dagcbor) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_eq' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_eq(dagcbor, dagcbor) IS 'implementation of = operator';

CREATE FUNCTION dagcbor_ne(dagcbor, dagcbor) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_ne' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_ne(dagcbor, dagcbor) IS 'implementation of <> operator';

CREATE FUNCTION dagcbor_hash(dagcbor) RETURNS int4
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_hash' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_hash(dagcbor) IS 'hash';

CREATE FUNCTION dagcbor_hash_extended(dagcbor, int8) RETURNS int8
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_hash_extended' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_hash_extended(dagcbor, int8) IS 'hash';

CREATE OPERATOR = (
	FUNCTION = dagcbor_eq,
	LEFTARG = dagcbor,
	RIGHTARG = dagcbor,
	COMMUTATOR = =,
	NEGATOR = <>,
	RESTRICT = eqsel,
	JOIN = eqjoinsel,
	HASHES
);
COMMENT ON OPERATOR = (dagcbor, dagcbor) IS 'equal';

CREATE OPERATOR <> (
	FUNCTION = dagcbor_ne,
	LEFTARG = dagcbor,
	RIGHTARG = dagcbor,
	COMMUTATOR = <>,
	NEGATOR = =,
	RESTRICT = neqsel,
	JOIN = neqjoinsel
);
COMMENT ON OPERATOR <> (dagcbor, dagcbor) IS 'not equal';

CREATE OPERATOR CLASS dagcbor_ops
	DEFAULT FOR TYPE dagcbor USING hash AS
	OPERATOR 1 =,
	FUNCTION 1 dagcbor_hash(dagcbor),
	FUNCTION 2 dagcbor_hash_extended(dagcbor, int8);
COMMENT ON OPERATOR CLASS dagcbor_ops USING hash IS 'hash of dagcbor';
COMMENT ON OPERATOR FAMILY dagcbor_ops USING hash IS 'hash of dagcbor';

CREATE FUNCTION dagcbor_typanalyze(internal) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_typanalyze' LANGUAGE C
	STABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_typanalyze(internal) IS 'dagcbor typanalyze';

ALTER TYPE dagcbor SET (ANALYZE = dagcbor_typanalyze);

-- Parts, read without unpacking the whole value.

CREATE FUNCTION dagcbor_object_field(dagcbor, text) RETURNS dagcbor
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_object_field' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_object_field(dagcbor, text) IS 'implementation of -> operator';

CREATE FUNCTION dagcbor_object_field_text(dagcbor, text) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_object_field_text' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_object_field_text(dagcbor, text) IS 'implementation of ->> operator';

CREATE FUNCTION dagcbor_array_element(dagcbor, integer) RETURNS dagcbor
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_array_element' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_array_element(dagcbor, integer) IS 'implementation of -> operator';

CREATE FUNCTION dagcbor_array_element_text(dagcbor, integer) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_array_element_text' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_array_element_text(dagcbor, integer) IS 'implementation of ->> operator';

CREATE FUNCTION dagcbor_path(dagcbor, text[]) RETURNS dagcbor
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_path' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_path(dagcbor, text[]) IS 'implementation of #> operator';

CREATE FUNCTION dagcbor_path_text(dagcbor, text[]) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_path_text' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE;
COMMENT ON FUNCTION dagcbor_path_text(dagcbor, text[]) IS 'implementation of #>> operator';

CREATE OPERATOR -> (FUNCTION = dagcbor_object_field, LEFTARG = dagcbor, RIGHTARG = text);
COMMENT ON OPERATOR -> (dagcbor, text) IS 'the value under this key';

CREATE OPERATOR ->> (FUNCTION = dagcbor_object_field_text, LEFTARG = dagcbor, RIGHTARG = text);
COMMENT ON OPERATOR ->> (dagcbor, text) IS 'the value under this key, as text';

CREATE OPERATOR -> (FUNCTION = dagcbor_array_element, LEFTARG = dagcbor, RIGHTARG = integer);
COMMENT ON OPERATOR -> (dagcbor, integer) IS 'the element of an array; negative: from its end';

CREATE OPERATOR ->> (FUNCTION = dagcbor_array_element_text, LEFTARG = dagcbor, RIGHTARG = integer);
COMMENT ON OPERATOR ->> (dagcbor, integer) IS 'the element of an array, as text; negative: from its end';

CREATE OPERATOR #> (FUNCTION = dagcbor_path, LEFTARG = dagcbor, RIGHTARG = text[]);
COMMENT ON OPERATOR #> (dagcbor, text[]) IS 'the value at this path';

CREATE OPERATOR #>> (FUNCTION = dagcbor_path_text, LEFTARG = dagcbor, RIGHTARG = text[]);
COMMENT ON OPERATOR #>> (dagcbor, text[]) IS 'the value at this path, as text';

-- jsonb's || for this type.  Without these operators, PostgreSQL would take anynonarray || text for value || '{…}', and
-- append to the value's text.

CREATE FUNCTION dagcbor_concat(dagcbor, jsonb) RETURNS jsonb
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN pg_catalog.jsonb_concat(dagcbor_as_jsonb($1), $2);
COMMENT ON FUNCTION dagcbor_concat(dagcbor, jsonb) IS 'implementation of || operator';

CREATE FUNCTION dagcbor_concat(jsonb, dagcbor) RETURNS jsonb
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN pg_catalog.jsonb_concat($1, dagcbor_as_jsonb($2));
COMMENT ON FUNCTION dagcbor_concat(jsonb, dagcbor) IS 'implementation of || operator';

CREATE FUNCTION dagcbor_concat(dagcbor, dagcbor) RETURNS jsonb
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN pg_catalog.jsonb_concat(dagcbor_as_jsonb($1), dagcbor_as_jsonb($2));
COMMENT ON FUNCTION dagcbor_concat(dagcbor, dagcbor) IS 'implementation of || operator';

CREATE OPERATOR || (FUNCTION = dagcbor_concat, LEFTARG = dagcbor, RIGHTARG = jsonb);
COMMENT ON OPERATOR || (dagcbor, jsonb) IS 'concatenate, as jsonb';

CREATE OPERATOR || (FUNCTION = dagcbor_concat, LEFTARG = jsonb, RIGHTARG = dagcbor);
COMMENT ON OPERATOR || (jsonb, dagcbor) IS 'concatenate, as jsonb';

CREATE OPERATOR || (FUNCTION = dagcbor_concat, LEFTARG = dagcbor, RIGHTARG = dagcbor);
COMMENT ON OPERATOR || (dagcbor, dagcbor) IS 'concatenate, as jsonb';

-- Whether a disk or a program has spoilt the stored bytes.

CREATE FUNCTION dagcbor_is_intact(dagcbor) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_dagcbor_is_intact' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 20;
COMMENT ON FUNCTION dagcbor_is_intact(dagcbor) IS
	'have the stored bytes the form that packing gives? False: something has spoilt the row. A change within a text or a hash has this form, too: compare the CID';

-- The functions on records, which read the packed form: also of a record that jsonb cannot hold.  The functions on text make
-- a literal, and a parameter without a type, a jsonb, as if there were no function on dagcbor: PostgreSQL could not choose
-- between jsonb and dagcbor.

CREATE FUNCTION record_text(value dagcbor, path text) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_record_text_packed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION record_text(dagcbor, text) IS 'as record_text(jsonb, text)';

CREATE FUNCTION record_text(value text, path text) RETURNS text
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN record_text($1::jsonb, $2);
COMMENT ON FUNCTION record_text(text, text) IS 'as record_text(jsonb, text), of a record as JSON';

CREATE FUNCTION record_text(value dagcbor, path text, max_bytes integer) RETURNS text
	AS 'MODULE_PATHNAME', 'atp_pg_record_text_packed_within' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 2;
COMMENT ON FUNCTION record_text(dagcbor, text, integer) IS 'as record_text(jsonb, text, integer)';

CREATE FUNCTION record_text(value text, path text, max_bytes integer) RETURNS text
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN record_text($1::jsonb, $2, $3);
COMMENT ON FUNCTION record_text(text, text, integer) IS 'as record_text(jsonb, text, integer), of a record as JSON';

CREATE FUNCTION record_hashtags(value dagcbor) RETURNS text[]
	AS 'MODULE_PATHNAME', 'atp_pg_record_hashtags_packed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION record_hashtags(dagcbor) IS 'as record_hashtags(jsonb)';

CREATE FUNCTION record_hashtags(value text) RETURNS text[]
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN record_hashtags($1::jsonb);
COMMENT ON FUNCTION record_hashtags(text) IS 'as record_hashtags(jsonb), of a record as JSON';

CREATE FUNCTION record_mentions(value dagcbor) RETURNS did[]
	AS 'MODULE_PATHNAME', 'atp_pg_record_mentions_packed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 5;
COMMENT ON FUNCTION record_mentions(dagcbor) IS 'as record_mentions(jsonb)';

CREATE FUNCTION record_mentions(value text) RETURNS did[]
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
	RETURN record_mentions($1::jsonb);
COMMENT ON FUNCTION record_mentions(text) IS 'as record_mentions(jsonb), of a record as JSON';

CREATE FUNCTION record_links(value dagcbor, OUT path text, OUT target aturi) RETURNS SETOF record
	AS 'MODULE_PATHNAME', 'atp_pg_record_links_packed' LANGUAGE C
	IMMUTABLE STRICT PARALLEL SAFE COST 10 ROWS 2;
COMMENT ON FUNCTION record_links(dagcbor) IS 'as record_links(jsonb)';

CREATE FUNCTION record_links(value text, OUT path text, OUT target aturi) RETURNS SETOF record
	LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE ROWS 2
	RETURN record_links($1::jsonb);
COMMENT ON FUNCTION record_links(text) IS 'as record_links(jsonb), of a record as JSON';

CREATE FUNCTION atproto.record_fits(cid cidlink, value dagcbor, raw bytea) RETURNS boolean
	AS 'MODULE_PATHNAME', 'atp_pg_record_fits_packed'
	LANGUAGE C IMMUTABLE PARALLEL SAFE COST 20;
COMMENT ON FUNCTION atproto.record_fits(cidlink, dagcbor, bytea) IS
	'as record_fits(cidlink, jsonb, bytea); false also for a value whose stored bytes are damaged';
