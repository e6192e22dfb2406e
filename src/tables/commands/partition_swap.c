/*
 * partition_swap.c
 *		Replaces a plain table by a partitioned table.
 *
 * PostgreSQL cannot convert a table.  So keys, indexes, comments and privileges are read as SQL
 * from the old table, and run on the new table.  Views are replaced with CREATE OR REPLACE, so that
 * objects which depend on them stay; their SQL names the table, which is the new table by then.
 */
#include "postgres.h"

#include "catalog/namespace.h"
#include "changes/untold.h"
#include "commands/tablespace.h"
#include "common/command_progress.h"
#include "config/spi.h"
#include "tables/base/distributed.h"
#include "tables/commands/partition_swap.h"
#include "utils/builtins.h"
#include "utils/lsyscache.h"

struct AtpSwap
{
	char	   *name;			/* the quoted name of the table, with the schema */
	char	   *old;
	Oid			relid;			/* of the old table */
	char	   *columns;
	uint64		rows;			/* that were copied */
	List	   *rest;			/* SQL for the new table: keys, indexes, comments, privileges */
	List	   *views;			/* SQL; run after the keys, since a view may GROUP BY a primary key,
								 * and before the old table is dropped */
};

/* Views that read table $1 directly. */
#define VIEWS_ON \
	"SELECT w.ev_class FROM pg_rewrite w JOIN pg_depend d ON d.objid = w.oid JOIN pg_class v ON v.oid = w.ev_class" \
	" WHERE d.classid = 'pg_rewrite'::regclass AND d.refclassid = 'pg_class'::regclass AND d.refobjid = $1 AND v.relkind = 'v'"

/*
 * Objects on table $1 that the swap would lose, or leave on the old table.  $2: the partition key's
 * column.
 */
#define IN_THE_WAY \
	"SELECT 'trigger ' || tgname AS what FROM pg_trigger WHERE tgrelid = $1 AND NOT tgisinternal" \
	" UNION ALL SELECT 'rule ' || rulename FROM pg_rewrite WHERE ev_class = $1" \
	" UNION ALL SELECT 'row security' FROM pg_class WHERE oid = $1 AND relrowsecurity" \
	" UNION ALL SELECT 'policy ' || polname FROM pg_policy WHERE polrelid = $1" \
	" UNION ALL SELECT pg_describe_object('pg_constraint'::regclass, oid, 0) FROM pg_constraint" \
	"  WHERE conrelid = $1 AND contype IN ('f', 'x', 't') OR confrelid = $1" \
	" UNION ALL SELECT 'inheritance' FROM pg_inherits WHERE $1 IN (inhrelid, inhparent)" \
	/* copied rows would be published a second time */ \
	" UNION ALL SELECT 'publication ' || pubname FROM pg_publication p WHERE puballtables" \
	"  OR EXISTS (SELECT FROM pg_publication_rel WHERE prpubid = p.oid AND prrelid = $1)" \
	"  OR EXISTS (SELECT FROM pg_publication_namespace n JOIN pg_class c ON c.relnamespace = n.pnnspid WHERE n.pnpubid = p.oid AND c.oid = $1)" \
	/* belongs to the old table: changes for the new table would be skipped */ \
	" UNION ALL SELECT 'subscription ' || subname FROM pg_subscription_rel r JOIN pg_subscription s ON s.oid = r.srsubid WHERE srrelid = $1" \
	" UNION ALL SELECT 'security label' FROM pg_seclabel WHERE classoid = 'pg_class'::regclass AND objoid = $1" \
	" UNION ALL SELECT 'access method ' || amname FROM pg_class c JOIN pg_am a ON a.oid = c.relam WHERE c.oid = $1 AND amname <> 'heap'" \
	" UNION ALL SELECT 'type ' || reloftype::regtype FROM pg_class WHERE oid = $1 AND reloftype <> 0" \
	" UNION ALL SELECT format('constraint %I, which is not valid', conname) FROM pg_constraint WHERE conrelid = $1 AND NOT convalidated" \
	" UNION ALL SELECT 'cluster mark of index ' || indexrelid::regclass FROM pg_index WHERE indrelid = $1 AND indisclustered" \
	" UNION ALL SELECT format('index %s, which is not valid', indexrelid::regclass) FROM pg_index WHERE indrelid = $1 AND NOT indisvalid" \
	" UNION ALL SELECT format('unique index %s, which lacks column %I', indexrelid::regclass, attname) FROM pg_index, pg_attribute" \
	"  WHERE indrelid = $1 AND indisunique AND attrelid = $1 AND attname = $2 AND attnum <> ALL ((indkey::int2[])[0:indnkeyatts - 1])" \
	" UNION ALL SELECT 'replica identity by an index' FROM pg_class WHERE oid = $1 AND relreplident = 'i'" \
	/* replacing a view needs its owner's rights */ \
	" UNION ALL SELECT format('view %s of %s', v.oid::regclass, v.relowner::regrole) FROM pg_class v WHERE v.oid IN (" VIEWS_ON ")" \
	"  AND NOT (pg_has_role(v.relowner, 'USAGE') AND has_schema_privilege(v.relnamespace, 'CREATE'))" \
	" UNION ALL SELECT 'identity of column ' || attname FROM pg_attribute WHERE attrelid = $1 AND attidentity <> ''" \
	" UNION ALL SELECT DISTINCT pg_describe_object(d.classid, d.objid, d.objsubid) FROM pg_depend d" \
	"  LEFT JOIN pg_rewrite w ON d.classid = 'pg_rewrite'::regclass AND w.oid = d.objid LEFT JOIN pg_class v ON v.oid = w.ev_class" \
	"  LEFT JOIN pg_constraint c ON d.classid = 'pg_constraint'::regclass AND c.oid = d.objid" \
	"  LEFT JOIN pg_attrdef a ON d.classid = 'pg_attrdef'::regclass AND a.oid = d.objid" \
	"  LEFT JOIN pg_index i ON d.classid = 'pg_class'::regclass AND i.indexrelid = d.objid" \
	"  WHERE d.deptype = 'n' AND v.relkind IS DISTINCT FROM 'v' AND $1 IS DISTINCT FROM COALESCE(c.conrelid, a.adrelid, i.indrelid) AND" \
	"   (d.refclassid = 'pg_class'::regclass AND d.refobjid = $1 AND NOT (d.classid = 'pg_class'::regclass AND d.objid = $1)" \
	"   OR d.refclassid = 'pg_type'::regclass AND d.refobjid IN (SELECT reltype FROM pg_class WHERE oid = $1))"

/* SQL to replace the views.  $1: the table; $2: its quoted name. */
#define VIEWS \
	"SELECT format('CREATE OR REPLACE VIEW %s%s AS %s', v.oid::regclass," \
	"  ' WITH (' || array_to_string(v.reloptions, ', ') || ')', pg_get_viewdef(v.oid)) AS sql FROM pg_class v" \
	" WHERE v.oid IN (" VIEWS_ON ") ORDER BY v.oid"

/*
 * SQL for a new table $1: revoke what default privileges granted, unless the grantee has the privilege on $2, too; replica
 * identity and statistics settings as of $2.
 */
#define LIKE \
	"SELECT sql FROM (" \
	"SELECT DISTINCT 1 AS n, format('REVOKE %s ON TABLE %s FROM %s', a.privilege_type, c.oid::regclass," \
	"   CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END) AS sql" \
	"  FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = $1 AND a.grantee <> c.relowner AND NOT EXISTS" \
	"   (SELECT FROM pg_class m, aclexplode(m.relacl) o WHERE m.oid = $2 AND o.grantee = a.grantee AND o.privilege_type = a.privilege_type)" \
	" UNION ALL SELECT 2, format('ALTER TABLE %s REPLICA IDENTITY %s', $1::regclass, CASE relreplident WHEN 'f' THEN 'FULL' ELSE 'NOTHING' END)" \
	"  FROM pg_class WHERE oid = $2 AND relreplident IN ('f', 'n')" \
	/* only n_distinct and n_distinct_inherited: the server may store further options */ \
	" UNION ALL SELECT 3, format('ALTER TABLE %s ALTER %I SET (%s)', $1::regclass, attname, option)" \
	"  FROM pg_attribute, unnest(attoptions) option WHERE attrelid = $2 AND attnum > 0 AND NOT attisdropped AND option ~ '^n_distinct'" \
	" UNION ALL SELECT 4, format('ALTER TABLE %s ALTER %I SET STATISTICS %s', $1::regclass, attname, attstattarget)" \
	"  FROM pg_attribute WHERE attrelid = $2 AND attnum > 0 AND NOT attisdropped AND attstattarget >= 0" \
	") l ORDER BY n, sql"

/* SQL that sets the tablespace for an index; '' is the database's default. */
#define IN_ITS_TABLESPACE(index) \
	"(SELECT format('SET LOCAL default_tablespace = %L', COALESCE(spcname, '')) FROM pg_class c LEFT JOIN pg_tablespace t ON t.oid = c.reltablespace WHERE c.oid = " index ")"

#define REST \
	"SELECT sql FROM (" \
	"SELECT 1 AS n, k.oid, u.sql, u.i FROM pg_constraint k, LATERAL unnest(ARRAY[" IN_ITS_TABLESPACE("k.conindid") "," \
	"   format('ALTER TABLE %s ADD CONSTRAINT %I %s', $2, conname, pg_get_constraintdef(k.oid))]) WITH ORDINALITY u (sql, i)" \
	"  WHERE conrelid = $1 AND contype IN ('p', 'u')" \
	" UNION ALL SELECT 2, indexrelid, u.sql, u.i FROM pg_index x, LATERAL unnest(ARRAY[" IN_ITS_TABLESPACE("x.indexrelid") "," \
	"   pg_get_indexdef(indexrelid)]) WITH ORDINALITY u (sql, i)" \
	"  WHERE indrelid = $1 AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = x.indexrelid AND c.conrelid = $1)" \
	" UNION ALL SELECT 3, indexrelid, format('COMMENT ON INDEX %s IS %L', indexrelid::regclass, obj_description(indexrelid, 'pg_class')), 0" \
	"  FROM pg_index WHERE indrelid = $1 AND obj_description(indexrelid, 'pg_class') IS NOT NULL" \
	" UNION ALL SELECT 3, attrelid, format('ALTER INDEX %s ALTER COLUMN %s SET STATISTICS %s', attrelid::regclass, attnum, attstattarget), attnum" \
	"  FROM pg_index JOIN pg_attribute ON attrelid = indexrelid WHERE indrelid = $1 AND attstattarget >= 0" \
	" UNION ALL SELECT 4, oid, format('COMMENT ON CONSTRAINT %I ON %s IS %L', conname, $2, obj_description(oid, 'pg_constraint')), 0" \
	"  FROM pg_constraint WHERE conrelid = $1 AND contype IN ('p', 'u') AND obj_description(oid, 'pg_constraint') IS NOT NULL" \
	" UNION ALL SELECT 4, s.oid, u.sql, u.i FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = stxnamespace, LATERAL unnest(ARRAY[" \
	"   pg_get_statisticsobjdef(s.oid)," \
	"   CASE WHEN stxstattarget >= 0 THEN format('ALTER STATISTICS %I.%I SET STATISTICS %s', nspname, stxname, stxstattarget) END," \
	"   CASE WHEN obj_description(s.oid, 'pg_statistic_ext') IS NOT NULL" \
	"    THEN format('COMMENT ON STATISTICS %I.%I IS %L', nspname, stxname, obj_description(s.oid, 'pg_statistic_ext')) END]) WITH ORDINALITY u (sql, i)" \
	"  WHERE stxrelid = $1 AND u.sql IS NOT NULL" \
	" UNION ALL SELECT 5, 0, format('COMMENT ON TABLE %s IS %L', $2, obj_description($1, 'pg_class')), 0" \
	"  WHERE obj_description($1, 'pg_class') IS NOT NULL" \
	" UNION ALL SELECT 6, 0, format('REVOKE ALL ON TABLE %s FROM %s', $2, relowner::regrole), 0 FROM pg_class WHERE oid = $1 AND relacl IS NOT NULL" \
	" UNION ALL SELECT 7, 0, format('GRANT %s ON TABLE %s TO %s%s', a.privilege_type, $2," \
	"   CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' END), 0" \
	"  FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = $1" \
	" UNION ALL SELECT 8, 0, format('GRANT %s (%I) ON TABLE %s TO %s%s', a.privilege_type, t.attname, $2," \
	"   CASE a.grantee WHEN 0 THEN 'PUBLIC' ELSE a.grantee::regrole::text END, CASE WHEN a.is_grantable THEN ' WITH GRANT OPTION' END), 0" \
	"  FROM pg_attribute t, aclexplode(t.attacl) a WHERE t.attrelid = $1 AND t.attnum > 0 AND NOT t.attisdropped" \
	") r ORDER BY n, oid, i"

/* SQL that renames the old indexes and statistics: the new table needs the names. */
#define RENAMES \
	"SELECT format('ALTER INDEX %s RENAME TO \"%s_plain\"', indexrelid::regclass, indexrelid) AS sql FROM pg_index WHERE indrelid = $1" \
	" UNION ALL SELECT format('ALTER STATISTICS %I.%I RENAME TO \"%s_plain\"', nspname, stxname, s.oid)" \
	"  FROM pg_statistic_ext s JOIN pg_namespace n ON n.oid = stxnamespace WHERE stxrelid = $1"

#define OID_ARG(oid)	{ObjectIdGetDatum(oid), OIDOID, false}
#define IN_CATALOG(oid, name)	ATP_ARGS(OID_ARG(oid), atp_text_arg(name))

static List *
read_texts(const char *sql, const char *column, Oid relid, const char *name)
{
	AtpResult	result = atp_query(sql, IN_CATALOG(relid, name));
	List	   *texts = NIL;

	for (uint64 i = 0; i < result.n; i++)
		texts = lappend(texts, atp_get_text(atp_result_row(result, i), column));
	atp_result_free(result);
	return texts;
}

/* Converting a distributed table would move all rows to this server. */
static void
refuse_distributed(Oid relid, const char *name)
{
	if (atp_is_distributed(relid))
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("cannot make partitions of table %s, whose rows are kept by Citus", name),
				 errhint("Make partitions first, and distribute the tables then.")));
}

static void
refuse_what_would_be_lost(Oid relid, const char *name, const char *column)
{
	List	   *found = read_texts("SELECT what FROM (" IN_THE_WAY ") w ORDER BY what", "what", relid, column);
	StringInfoData detail;
	ListCell   *cell;

	if (found == NIL)
		return;
	initStringInfo(&detail);
	foreach(cell, found)
		appendStringInfo(&detail, "%s%s", detail.len > 0 ? "\n" : "", (char *) lfirst(cell));
	ereport(ERROR,
			(errcode(ERRCODE_DEPENDENT_OBJECTS_STILL_EXIST),
			 errmsg("cannot make partitions of table %s, because of what is on it", name),
			 errdetail_internal("%s", detail.data),
			 errhint("Remove it, and make it again afterwards.")));
}

static void
run_all(List *statements)
{
	ListCell   *cell;

	foreach(cell, statements)
		atp_run(lfirst(cell), ATP_NO_ARGS);
}

List *
atp_swap_views(Oid relid)
{
	AtpResult	views = atp_query(VIEWS_ON " ORDER BY w.ev_class", ATP_ARGS(OID_ARG(relid)));
	List	   *oids = NIL;

	for (uint64 i = 0; i < views.n; i++)
	{
		bool		isnull;

		oids = lappend_oid(oids, DatumGetObjectId(atp_get(atp_result_row(views, i), "ev_class", OIDOID, &isnull)));
	}
	atp_result_free(views);
	return oids;
}

/* TABLESPACE clause of a table; "": the database's default. */
static char *
tablespace_of(Oid relid)
{
	char	   *name = get_tablespace_name(get_rel_tablespace(relid));

	return name == NULL ? "" : psprintf(" TABLESPACE %s", quote_identifier(name));
}

/* Quoted names of the columns that can be written. */
static char *
columns_of(Oid relid)
{
	AtpResult	result = atp_query("SELECT string_agg(quote_ident(attname), ', ' ORDER BY attnum) AS names FROM pg_attribute"
								   " WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped AND attgenerated = ''",
								   ATP_ARGS(OID_ARG(relid)));
	char	   *names = atp_get_text(atp_result_row(result, 0), "names");

	atp_result_free(result);
	return names;
}

void
atp_swap_like(Oid relid, Oid model)
{
	AtpResult	result = atp_query(LIKE, ATP_ARGS(OID_ARG(relid), OID_ARG(model)));

	for (uint64 i = 0; i < result.n; i++)
		atp_run(atp_get_text(atp_result_row(result, i), "sql"), ATP_NO_ARGS);
	atp_result_free(result);
}

AtpSwap *
atp_swap_begin(const char *schema, const char *table, const char *key, const char *column)
{
	AtpSwap    *swap = palloc0(sizeof(AtpSwap));
	Oid			relid = get_relname_relid(table, get_namespace_oid(schema, false));
	char	   *plain = psprintf("%s_plain", table);

	swap->relid = relid;
	swap->name = quote_qualified_identifier(schema, table);
	swap->old = quote_qualified_identifier(schema, plain);
	refuse_distributed(relid, swap->name);
	refuse_what_would_be_lost(relid, swap->name, column);
	swap->views = read_texts(VIEWS, "sql", relid, swap->name);
	swap->rest = read_texts(REST, "sql", relid, swap->name);
	run_all(read_texts(RENAMES, "sql", relid, swap->name));
	atp_run(psprintf("ALTER TABLE %s RENAME TO %s", swap->name, quote_identifier(plain)), ATP_NO_ARGS);
	atp_run(psprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING INDEXES EXCLUDING STATISTICS) PARTITION BY %s%s",
					 swap->name, swap->old, key, tablespace_of(relid)), ATP_NO_ARGS);
	atp_swap_like(get_relname_relid(table, get_namespace_oid(schema, false)), relid);
	swap->columns = columns_of(relid);
	return swap;
}

char *
atp_swap_create_part(const char *schema, const char *table, const char *part, const char *options)
{
	Oid			relid = get_relname_relid(table, get_namespace_oid(schema, false));
	char	   *name = quote_qualified_identifier(schema, part);

	atp_run(psprintf("CREATE TABLE %s (LIKE %s INCLUDING ALL EXCLUDING INDEXES EXCLUDING IDENTITY EXCLUDING STATISTICS)%s%s",
					 name, quote_qualified_identifier(schema, table), options, tablespace_of(relid)), ATP_NO_ARGS);
	return name;
}

char *
atp_swap_options(Oid relid)
{
	AtpResult	result = atp_query("SELECT string_agg(o, ', ') AS options FROM (SELECT unnest(reloptions) AS o FROM pg_class WHERE oid = $1"
								   " UNION ALL SELECT 'toast.' || unnest(t.reloptions) FROM pg_class c JOIN pg_class t ON t.oid = c.reltoastrelid WHERE c.oid = $1) r",
								   ATP_ARGS(OID_ARG(relid)));
	char	   *options = atp_get_text_or_null(atp_result_row(result, 0), "options");

	atp_result_free(result);
	return options == NULL ? "" : psprintf(" WITH (%s)", options);
}

const char *
atp_swap_old(const AtpSwap *swap)
{
	return swap->old;
}

/* Readers of slots have been told of these rows. */
static void
copy_rows(void *arg)
{
	AtpSwap    *swap = arg;

	swap->rows = atp_run(psprintf("INSERT INTO %s (%s) SELECT %s FROM %s", swap->name, swap->columns, swap->columns, swap->old), ATP_NO_ARGS);
}

uint64
atp_swap_end(AtpSwap *swap)
{
	ListCell   *cell;

	atp_progress_reads(psprintf("copying the rows of %s", swap->name), swap->relid);
	atp_write_untold(copy_rows, swap);
	atp_progress_phase(psprintf("making keys, indexes and grants of %s", swap->name), list_length(swap->rest));
	foreach(cell, swap->rest)
	{
		atp_run(lfirst(cell), ATP_NO_ARGS);
		atp_progress_to(foreach_current_index(cell) + 1);
	}
	run_all(swap->views);
	atp_run(psprintf("DROP TABLE %s", swap->old), ATP_NO_ARGS);
	return swap->rows;
}
