-- The rules that every object of the extension keeps, read from the catalogues.
-- Each query prints the objects that break one: nothing, that is.
SET client_min_messages = warning;
CREATE EXTENSION IF NOT EXISTS atproto;
RESET client_min_messages;

CREATE TEMP TABLE member AS
SELECT d.classid, d.objid, a.type, a.identity
FROM pg_depend d, pg_identify_object(d.classid, d.objid, d.objsubid) a
WHERE d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'
	AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'atproto');
CREATE TEMP TABLE func AS
SELECT p.*, m.identity FROM pg_proc p JOIN member m ON m.classid = 'pg_proc'::regclass AND m.objid = p.oid;
CREATE TEMP TABLE oper AS
SELECT o.*, m.identity FROM pg_operator o JOIN member m ON m.classid = 'pg_operator'::regclass AND m.objid = o.oid;
-- The types with an order of their own; dagcbor has equality and hash only (sql/dagcbor.sql)
CREATE TEMP TABLE base AS
SELECT t.*, m.identity FROM pg_type t JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = t.oid WHERE t.typtype = 'b' AND t.typelem = 0 AND t.typname <> 'dagcbor';
SELECT identity FROM base ORDER BY identity COLLATE "C";
-- That the rules below look at something: kinds of objects there are
SELECT type FROM member WHERE type IN ('type', 'function', 'aggregate', 'operator', 'operator class', 'operator family', 'cast', 'schema') GROUP BY type HAVING count(*) > 0 ORDER BY type COLLATE "C";

-- 1. Every object has a comment; columns of composite types, too.  Array types,
-- row types of tables and sequences of columns belong to another object.
SELECT 'no comment' AS rule, type, identity FROM member
WHERE obj_description(objid, classid::regclass::name) IS NULL
	AND NOT (classid = 'pg_type'::regclass AND EXISTS (SELECT FROM pg_type t LEFT JOIN pg_class c ON c.oid = t.typrelid
		WHERE t.oid = objid AND (t.typelem <> 0 AND t.typlen = -1 OR c.relkind <> 'c')))
	AND NOT (type = 'sequence' AND EXISTS (SELECT FROM pg_depend o WHERE o.classid = member.classid AND o.objid = member.objid AND o.deptype IN ('a', 'i') AND o.refobjsubid > 0))
ORDER BY 2, 3;
SELECT 'no comment' AS rule, a.attrelid::regclass, a.attname FROM pg_attribute a JOIN pg_type t ON t.typrelid = a.attrelid
	JOIN member m ON m.classid = 'pg_type'::regclass AND m.objid = t.oid JOIN pg_class c ON c.oid = a.attrelid
WHERE c.relkind = 'c' AND a.attnum > 0 AND col_description(a.attrelid, a.attnum) IS NULL;

-- 2. What is in the schema of the extension is found by its name: nothing of
-- pg_catalog is called the same.  (The type tid is, and has a schema for that.)
SELECT 'hidden' AS rule, type, identity FROM member
WHERE CASE classid::regclass::text WHEN 'pg_proc' THEN NOT pg_function_is_visible(objid) AND identity !~ '^atproto(_internal)?\.'
	WHEN 'pg_type' THEN NOT pg_type_is_visible(objid) AND identity !~ '^atproto(_internal)?\.'
	WHEN 'pg_operator' THEN NOT pg_operator_is_visible(objid) WHEN 'pg_opclass' THEN NOT pg_opclass_is_visible(objid)
	WHEN 'pg_opfamily' THEN NOT pg_opfamily_is_visible(objid) END;

-- 3. Functions of the types (those that take or give one, or belong to one) are
-- immutable, strict and parallel safe; only the generator is volatile, and
-- planner estimates are stable.  Aggregates are judged by their functions.
SELECT 'volatile' AS rule, f.identity, f.provolatile FROM func f
WHERE f.prokind = 'f' AND f.provolatile <> CASE WHEN f.proname = 'tid_generate' THEN 'v' WHEN f.proname ~ '_(inside_sel|typanalyze)$' THEN 's' ELSE 'i' END
	AND (f.pronamespace NOT IN ('atproto'::regnamespace, 'atproto_internal'::regnamespace) OR f.proname = 'tid');
SELECT 'not strict' AS rule, f.identity FROM func f
WHERE f.prokind = 'f' AND NOT f.proisstrict AND (f.pronamespace NOT IN ('atproto'::regnamespace, 'atproto_internal'::regnamespace) OR f.proname = 'tid');
SELECT 'not parallel safe' AS rule, f.identity FROM func f
WHERE f.proparallel <> 's' AND (f.pronamespace NOT IN ('atproto'::regnamespace, 'atproto_internal'::regnamespace) OR f.proname = 'tid');
-- In these schemas are the consumer's functions, which write and talk to
-- workers: parallel safe only what cannot do that.
SELECT 'parallel safe and volatile' AS rule, f.identity FROM func f
WHERE f.proparallel = 's' AND f.provolatile = 'v' AND f.proname <> 'tid_generate';

-- 4. No function of ours runs with another user's rights, and SQL or PL/pgSQL
-- functions do not look names up in the caller's search_path.
SELECT 'security definer' AS rule, f.identity FROM func f WHERE f.prosecdef;
SELECT 'open search_path' AS rule, f.identity FROM func f JOIN pg_language l ON l.oid = f.prolang
WHERE l.lanname IN ('sql', 'plpgsql') AND f.prosqlbody IS NULL
	AND NOT EXISTS (SELECT FROM unnest(f.proconfig) c WHERE c ~ '^search_path=pg_catalog');

-- 5. Leakproof are the comparisons, what compares prefixes, and nothing else.
SELECT 'leakproof' AS rule, f.identity, f.proleakproof FROM func f
WHERE f.proleakproof <> (f.proname ~ '_(inside|contains)$' OR f.proname ~ '_(eq|ne|lt|le|ge|gt|cmp)$' AND EXISTS (SELECT FROM base b WHERE f.proargtypes = ARRAY[b.oid, b.oid]::oidvector));

-- 6. Operators: those that give boolean have a commutator, an estimate for
-- restrictions and one for joins; comparisons have the right ones, a negator,
-- and equality can be hashed and merged.  Those with a text on the right are inlined
-- before anybody estimates, and every type has them.  Parts of a dagcbor are no conditions.
SELECT 'operator' AS rule, o.identity FROM oper o
WHERE o.oprkind = 'b' AND NOT ('dagcbor'::regtype IN (o.oprleft, o.oprright) AND o.oprresult <> 'boolean'::regtype)
	AND NOT (o.oprright = 'text'::regtype AND o.oprcode IN (SELECT f.oid FROM func f JOIN pg_language l ON l.oid = f.prolang WHERE l.lanname = 'sql')) AND (o.oprcom = 0 OR o.oprrest = 0 OR o.oprjoin = 0 OR o.oprresult <> 'boolean'::regtype)
	OR (SELECT c.oprcom FROM pg_operator c WHERE c.oid = o.oprcom) <> o.oid;
SELECT 'LIKE' AS rule, b.identity, n.name
FROM base b CROSS JOIN (VALUES ('~~', '!~~'), ('!~~', '~~'), ('~~*', '!~~*'), ('!~~*', '~~*')) n (name, negator)
	LEFT JOIN oper o ON o.oprleft = b.oid AND o.oprright = 'text'::regtype AND o.oprname = n.name LEFT JOIN oper g ON g.oid = o.oprnegate
WHERE g.oprname IS DISTINCT FROM n.negator;
SELECT 'length' AS rule, b.identity FROM base b WHERE NOT EXISTS (SELECT FROM func f WHERE f.proname = 'length' AND f.proargtypes = ARRAY[b.oid]::oidvector);
SELECT 'comparison' AS rule, b.identity, n.name
FROM base b CROSS JOIN (VALUES ('=', '=', '<>', 'eq'), ('<>', '<>', '=', 'neq'), ('<', '>', '>=', 'scalarlt'), ('<=', '>=', '>', 'scalarle'),
	('>=', '<=', '<', 'scalarge'), ('>', '<', '<=', 'scalargt')) n (name, commutator, negator, estimate)
	LEFT JOIN oper o ON o.oprleft = b.oid AND o.oprright = b.oid AND o.oprname = n.name
	LEFT JOIN oper c ON c.oid = o.oprcom LEFT JOIN oper g ON g.oid = o.oprnegate
WHERE c.oprname IS DISTINCT FROM n.commutator OR g.oprname IS DISTINCT FROM n.negator
	OR o.oprrest::text IS DISTINCT FROM n.estimate || 'sel' OR o.oprjoin::text IS DISTINCT FROM n.estimate || 'joinsel'
	OR (n.name = '=') <> o.oprcanhash OR (n.name = '=') <> o.oprcanmerge;

-- 7. Every type: binary input and output, hashing of both kinds, sort support and
-- deduplication, BRIN of two kinds, min and max.
SELECT 'type' AS rule, b.identity FROM base b WHERE b.typreceive = 0 OR b.typsend = 0 OR (b.typmodin = 0) <> (b.typmodout = 0);
SELECT 'opclass' AS rule, b.identity, w.am, w.functions
FROM base b CROSS JOIN (VALUES ('btree', '{1,2,4}'::int[], true), ('hash', '{1,2}', true), ('brin', '{1,2,3,4}', true), ('brin', '{1,2,3,4,5,11}', false)) w (am, functions, isdefault)
WHERE NOT EXISTS (SELECT FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod JOIN member m ON m.classid = 'pg_opclass'::regclass AND m.objid = c.oid
	WHERE c.opcintype = b.oid AND a.amname = w.am AND c.opcdefault = w.isdefault AND w.functions <@ ARRAY(SELECT p.amprocnum::int FROM pg_amproc p WHERE p.amprocfamily = c.opcfamily AND p.amproclefttype = b.oid));
SELECT 'skip support' AS rule FROM pg_opclass c WHERE c.opcname = 'atproto_tid_ops' AND c.opcmethod = (SELECT oid FROM pg_am WHERE amname = 'btree')
	AND (current_setting('server_version_num')::int >= 180000) <> EXISTS (SELECT FROM pg_amproc p WHERE p.amprocfamily = c.opcfamily AND p.amprocnum = 6);
SELECT 'aggregate' AS rule, b.identity, n FROM base b, unnest('{min,max}'::text[]) n
WHERE NOT EXISTS (SELECT FROM func f JOIN pg_aggregate a ON a.aggfnoid = f.oid WHERE f.proname = n AND f.proargtypes = ARRAY[b.oid]::oidvector
	AND a.aggsortop <> 0 AND a.aggcombinefn <> 0 AND f.proparallel = 's');

-- 8. Operator classes are what PostgreSQL itself calls valid.
SELECT 'amvalidate' AS rule, c.opcname FROM pg_opclass c JOIN member m ON m.classid = 'pg_opclass'::regclass AND m.objid = c.oid WHERE NOT amvalidate(c.oid);

-- 9. Casts: none to text (output does that, by assignment and explicitly); from text
-- and varchar to every type, implicitly, by its input.  Implicit are otherwise only those
-- that apply a modifier, TID to record key, and dagcbor to jsonb, so that jsonb's operators and functions serve dagcbor;
-- by assignment only what cannot fail, and jsonb to dagcbor.
SELECT 'cast' AS rule, m.identity, c.castcontext FROM pg_cast c JOIN member m ON m.classid = 'pg_cast'::regclass AND m.objid = c.oid
WHERE c.casttarget IN ('text'::regtype, 'varchar'::regtype) OR (c.castcontext = 'i') <> (c.castsource = c.casttarget OR c.castsource IN ('text'::regtype, 'varchar'::regtype)
	OR c.castsource = 'atproto.tid'::regtype AND c.casttarget = 'recordkey'::regtype OR c.castsource = 'dagcbor'::regtype AND c.casttarget = 'jsonb'::regtype);
SELECT 'no cast' AS rule, b.identity, s FROM base b, unnest('{text,varchar}'::regtype[]) s
WHERE NOT EXISTS (SELECT FROM pg_cast c WHERE c.castsource = s AND c.casttarget = b.oid AND c.castmethod = 'i' AND c.castcontext = 'i');
SELECT c.castsource::regtype AS source, c.casttarget::regtype AS target, c.castcontext AS context
FROM pg_cast c JOIN member m ON m.classid = 'pg_cast'::regclass AND m.objid = c.oid WHERE c.castsource <> c.casttarget AND c.castmethod <> 'i'
ORDER BY c.castsource::regtype::text COLLATE "C", c.casttarget::regtype::text COLLATE "C";

-- 10. Costs: what compares is cheap, what parses is not.
SELECT 'cost' AS rule, f.identity, f.procost FROM func f WHERE f.procost < CASE WHEN f.proname ~ '^(aturi|noshuri)_(path|segments|is_|normalize|query|collection|rkey)' THEN 2 ELSE 1 END
	OR f.proleakproof AND f.procost > 1;

-- 11. Nothing that opens a socket or changes the consumer is for everybody.
SELECT 'executable by PUBLIC' AS rule, f.identity FROM func f
WHERE f.pronamespace = 'atproto'::regnamespace AND f.proname ~ '^(subscribe|unsubscribe|pause|resume|set_cursor|retry)'
	AND EXISTS (SELECT FROM aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a WHERE a.grantee = 0 AND a.privilege_type = 'EXECUTE');

-- 12. What goes with a subscription, or with another row, is found by an index.
SELECT 'foreign key without index' AS rule, c.conrelid::regclass AS "table", c.conkey FROM pg_constraint c JOIN member m ON m.classid = 'pg_class'::regclass AND m.objid = c.conrelid
WHERE c.contype = 'f' AND NOT EXISTS (SELECT FROM pg_index i WHERE i.indrelid = c.conrelid AND i.indpred IS NULL
	AND (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey)
ORDER BY c.conrelid::regclass::text COLLATE "C";

-- 13. What only views, triggers, aggregates and processes call is in atproto_internal, where PUBLIC finds nothing.
-- PUBLIC executes there what views and aggregates call.  install_script() is for the library, which reads its text.
SELECT 'not for users' AS rule, f.identity FROM func f
WHERE f.pronamespace = 'atproto'::regnamespace
	AND (f.prorettype IN ('trigger'::regtype, 'event_trigger'::regtype, 'internal'::regtype) OR 'internal'::regtype = ANY (f.proargtypes::oid[]));
SELECT 'schema for everybody' AS rule, n.nspname FROM pg_namespace n, aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner))) a
WHERE n.nspname = 'atproto_internal' AND a.grantee <> n.nspowner;
SELECT 'executable by PUBLIC' AS rule, f.identity FROM func f
WHERE f.pronamespace = 'atproto_internal'::regnamespace AND f.proname <> 'install_script'
	AND EXISTS (SELECT FROM aclexplode(coalesce(f.proacl, acldefault('f', f.proowner))) a WHERE a.grantee = 0)
	AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.refclassid = 'pg_proc'::regclass AND d.refobjid = f.oid
		AND (d.classid = 'pg_rewrite'::regclass OR d.classid = 'pg_proc'::regclass AND d.objid IN (SELECT aggfnoid FROM pg_aggregate)));
SELECT 'other than functions' AS rule, identity FROM member
WHERE (classid = 'pg_class'::regclass AND (SELECT relnamespace FROM pg_class WHERE oid = objid) = 'atproto_internal'::regnamespace)
	OR (classid = 'pg_type'::regclass AND (SELECT typnamespace FROM pg_type WHERE oid = objid) = 'atproto_internal'::regnamespace);
