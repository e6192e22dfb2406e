/*
 * hiding.h
 *		Hidden accounts: the column hidden_at of the table repo, which hide() and unhide() (hide.c) write.
 */
#ifndef ATP_HIDING_H
#define ATP_HIDING_H

#include "postgres.h"

/* Has the table repo of the target the column?  Tables of an earlier version have not, until create_tables() is called. */
extern bool atp_has_hiding(const char *target);

/* SQL: has the target $1 a view visible_record or visible_link without the column hidden_at? */
#define ATP_SQL_VIEW_SHOWS_HIDDEN \
	"EXISTS (SELECT 1 FROM pg_class v JOIN pg_class t ON t.relnamespace = v.relnamespace AND t.relname = 'repo'" \
	" JOIN pg_attribute a ON a.attrelid = t.oid AND a.attname = 'hidden_at' JOIN pg_rewrite w ON w.ev_class = v.oid" \
	" WHERE v.relnamespace = (SELECT n.oid FROM pg_namespace n WHERE n.nspname = $1) AND v.relname IN ('visible_record', 'visible_link')" \
	" AND NOT EXISTS (SELECT 1 FROM pg_depend d WHERE d.classid = 'pg_rewrite'::regclass AND d.objid = w.oid" \
	"  AND d.refclassid = 'pg_class'::regclass AND d.refobjid = t.oid AND d.refobjsubid = a.attnum))"

#endif							/* ATP_HIDING_H */
