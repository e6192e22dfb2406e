/*
 * table_link.h
 *		The tables link and link_source: what records link to, and from which places.  link_count.h has their counts.
 *
 * link is the image of record.  It has a row for each target that record_links() finds in value, or
 * dagcbor_links() in raw where value is null, if the place of the target is a source, a
 * subscription wants the source, and the row fits into the index.  A transaction that changes
 * record changes link, too (derived.h); link_rebuild.c states this rule in SQL.
 *
 * A process that writes links locks link (ROW EXCLUSIVE, as any INSERT does) before inserting
 * sources.  rebuild_links() waits for this lock, and must not have to wait for anything else.
 *
 * link_source needs no lock (link_ids.c takes one only to save ids).  A process that lacks a source
 * inserts it with ON CONFLICT DO NOTHING and a free id, and looks again.  When a record brings the
 * source, the free id is one more than the highest id up to ATP_LINK_SOURCES_MAX.  When a
 * subscription's "links" or an operator names the source, the free id is one more than the highest
 * of all ids, and above ATP_LINK_SOURCES_MAX.  A second process inserting a source at the same time
 * inserts the same id and therefore waits for the first: so the primary key enforces the limit.
 *
 * When no id is free for sources from records, the links of further sources are skipped and
 * counted.  The same happens to the sources beyond ATP_LINK_SOURCES_NEW in a record.  Sources are
 * never removed and ids never reused, because processes cache both.
 */
#ifndef ATP_TABLE_LINK_H
#define ATP_TABLE_LINK_H

#include "tables/base/table.h"

/*
 * The rule for link in SQL.  ATP_STORED_LINKS: the links of row r of record.  ATP_LINK_PLACES: each place p in a record with a
 * link that fits.  ATP_IS_LINK_SOURCE: s is the source of p.  ATP_LINK_IMAGE: what link should contain (with duplicates, and
 * with more columns of places).  ATP_SAME_LINK: two rows are the same link.
 */
#define ATP_STORED_LINKS \
	"(SELECT * FROM atproto.stored_links(r.value, r.did, r.collection, r.rkey)" \
	" UNION ALL SELECT * FROM atproto.stored_links(CASE WHEN r.value IS NULL THEN r.raw END, r.did, r.collection, r.rkey))"
#define ATP_LINK_PLACES(record) \
	"(SELECT k.target, r.collection, k.path, r.rkey, r.did FROM " record " r CROSS JOIN LATERAL " ATP_STORED_LINKS " k" \
	" WHERE " ATP_LINK_FITS ")"
#define ATP_LINK_FITS		"atproto.link_fits(k.target, r.rkey, r.did)"
#define ATP_IS_LINK_SOURCE	"s.collection OPERATOR(@.=) p.collection AND s.path = p.path"
#define ATP_LINK_IMAGE(places, more) \
	"SELECT p.target, s.id AS source, p.rkey, p.did" more " FROM " places " p JOIN #.link_source s ON " ATP_IS_LINK_SOURCE
#define ATP_SAME_LINK(a, b) \
	a ".target OPERATOR(@.=) " b ".target AND " a ".source = " b ".source" \
	" AND " a ".rkey OPERATOR(@.=) " b ".rkey AND " a ".did OPERATOR(@.=) " b ".did"

/*
 * The sources that an element e of a subscription's "links" means, as a LIKE pattern for collection, ':' and path:
 * neither collection nor path has a colon.  The subquery contains no further subquery that refers to t: Citus plans
 * such an expression, as the argument of an aggregate in a join with a distributed table, into a plan that crashes
 * the server.
 */
#define ATP_LINK_PATTERN \
	"(SELECT pg_catalog.regexp_replace(pg_catalog.split_part(t, ':', 1), '[*]$', '%') || ':'" \
	" || COALESCE(NULLIF(pg_catalog.split_part(t, ':', 2), ''), '%')" \
	" FROM pg_catalog.regexp_replace(e, '([%_])', '\\\1', 'g') t)"

/*
 * A row with the links that the table is to have, as patterns: those of all subscriptions that may fill the target ($1).
 * Null: all links are wanted, by a subscription or because no subscription keeps links.  A caller that needs no row in
 * the second case adds HAVING count(*) > 0.
 */
#define ATP_WANTED_LINKS \
	"SELECT CASE WHEN count(*) > 0 AND NOT bool_or(s.links = 'all') THEN array_agg(" ATP_LINK_PATTERN ") END AS links" \
	" FROM atproto.subscription s LEFT JOIN unnest(CASE WHEN s.links <> 'all' THEN s.links::text[] END) e ON true" \
	" WHERE s.target = $1::name AND s.links <> 'none' AND atproto.role_may_fill(s.owner, s.target, s.target_owner)"

/* Statements on link. */
typedef enum AtpLinkStatement
{
	ATP_PUT_LINKS,				/* inserts links that the table lacks */
	ATP_DELETE_LINKS,
	ATP_PUT_LINKS_TOLD,			/* ATP_PUT_LINKS -> target, source of each inserted link */
	ATP_DELETE_LINKS_TOLD		/* ATP_DELETE_LINKS -> target, source of each deleted link */
} AtpLinkStatement;

/* Statements on link_source. */
typedef enum AtpLinkSourceStatement
{
	ATP_FIND_SOURCES,			/* collection[], path[], n[] -> n, id, counted of existing sources */
	ATP_LOCK_SOURCES,			/* ATP_FIND_SOURCES; ERROR if a source was changed after the transaction's snapshot */
	ATP_ADD_SOURCES,			/* collection[], path[]: adds sources from records, while there is room */
	ATP_NAME_SOURCES,			/* collection[], path[]: adds named sources */
	ATP_LAST_SOURCE				/* -> the highest id of a source from records */
} AtpLinkSourceStatement;

/* Literals, since they are put into SQL. */
#define ATP_LINK_SOURCES_MAX	10000

/* greatest number of new sources from a single record */
#define ATP_LINK_SOURCES_NEW	16

/* The account owning the target, as aturi_repo() gives it. */
extern struct varlena *atp_link_authority(const struct varlena *target);

/* Is the link's key at most ATP_LINK_ENTRY_MAX bytes long?  Longer links are left out. */
extern bool atp_link_fits(const struct varlena *target, const struct varlena *rkey, const struct varlena *did);

#endif							/* ATP_TABLE_LINK_H */
