/*
 * table_link.h
 *		The tables link and link_source: what records link to, and from where.
 *
 * link is the image of record: a row for each target that record_links() finds in its value,
 * or dagcbor_links() in raw where there is no value, at a path that is a source and that a
 * subscription wants, if it fits into the index.  Whoever changes record changes link in the same transaction (derived.h);
 * link_rebuild.c has that as SQL.
 *
 * Who writes links has link locked (ROW EXCLUSIVE, as any INSERT does) before he inserts
 * sources: rebuild_links() waits for that lock, and must not have to wait for anything else.
 *
 * Nobody has to lock link_source.  Who needs a source that is not there inserts it, ON CONFLICT
 * DO NOTHING, with an id that is free:
 *
 *		the highest up to ATP_LINK_SOURCES_MAX, and 1, when a record brings it
 *		the highest of all, ATP_LINK_SOURCES_MAX at least, and 1, when a subscription's
 *		"links" or an operator names it
 *
 * and looks again.  Another who does so at the same time is waited for, since the ids are the
 * same: so the key is what holds the limit.  When there is no free one for what records bring,
 * its links are passed over, and counted; likewise what is beyond the ATP_LINK_SOURCES_NEW
 * that one record may bring.  Sources are never removed, nor their ids given to others:
 * processes remember them.
 */
#ifndef ATP_TABLE_LINK_H
#define ATP_TABLE_LINK_H

#include "tables/base/table.h"

/*
 * The same in SQL: each place p of a record that links, if it may be a row; its source s; what link should be, but
 * that rows may come several times, with more columns of places; and whether two rows are of one link.
 */
#define ATP_LINK_PLACES(record) \
	"(SELECT k.target, r.collection, k.path, r.rkey, r.did FROM " record " r CROSS JOIN LATERAL (SELECT * FROM @.record_links(r.value)" \
	" UNION ALL SELECT * FROM @.dagcbor_links(CASE WHEN r.value IS NULL THEN r.raw END)) k" \
	" WHERE " ATP_LINK_FITS ")"
#define ATP_LINK_FITS		"atproto.link_fits(k.target, r.rkey, r.did)"
#define ATP_IS_LINK_SOURCE	"s.collection OPERATOR(@.=) p.collection AND s.path = p.path"
#define ATP_LINK_IMAGE(places, more) \
	"SELECT p.target, s.id AS source, p.rkey, p.did" more " FROM " places " p JOIN #.link_source s ON " ATP_IS_LINK_SOURCE
#define ATP_SAME_LINK(a, b) \
	a ".target OPERATOR(@.=) " b ".target AND " a ".source = " b ".source" \
	" AND " a ".rkey OPERATOR(@.=) " b ".rkey AND " a ".did OPERATOR(@.=) " b ".did"

/*
 * What source an element e of a subscription's "links" means, as a pattern of LIKE for the source's collection, ':'
 * and path.  Neither part of a source has a colon.  The subquery has no further subquery that refers to t: Citus plans
 * such an expression, as the argument of an aggregate in a join with a distributed table, into a plan that crashes the server.
 */
#define ATP_LINK_PATTERN \
	"(SELECT pg_catalog.regexp_replace(pg_catalog.split_part(t, ':', 1), '[*]$', '%') || ':'" \
	" || COALESCE(NULLIF(pg_catalog.split_part(t, ':', 2), ''), '%')" \
	" FROM pg_catalog.regexp_replace(e, '([%_])', '\\\1', 'g') t)"

/* Statements of link. */
typedef enum AtpLinkStatement
{
	ATP_PUT_LINKS,				/* those that are not there */
	ATP_DELETE_LINKS
} AtpLinkStatement;

/* Statements of link_source. */
typedef enum AtpLinkSourceStatement
{
	ATP_FIND_SOURCES,			/* collection[], path[], n[] -> n, id of those that exist */
	ATP_ADD_SOURCES,			/* collection[], path[]: as what records bring, while there is room */
	ATP_NAME_SOURCES,			/* likewise: as what somebody names */
	ATP_LAST_SOURCE				/* -> the highest id of what records have brought */
} AtpLinkSourceStatement;

/* Literals: they are put into SQL. */
#define ATP_LINK_SOURCES_MAX	10000

/* of one record */
#define ATP_LINK_SOURCES_NEW	16

/* The account that a target is of, as aturi_repo() gives it. */
extern struct varlena *atp_link_authority(const struct varlena *target);

/* Is it no longer than ATP_LINK_ENTRY_MAX?  Longer ones are left out. */
extern bool atp_link_fits(const struct varlena *target, const struct varlena *rkey, const struct varlena *did);

#endif							/* ATP_TABLE_LINK_H */
