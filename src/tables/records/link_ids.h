/*
 * link_ids.h
 *		The sources of links, and their ids, as a cache of this process.
 */
#ifndef ATP_LINK_IDS_H
#define ATP_LINK_IDS_H

#include "core/atp.h"
#include "tables/base/sink.h"

/* A source of links: a path in the records of a collection. */
typedef struct AtpLinkSource
{
	const struct varlena *collection;
	AtpSpan		path;
	uint32		hash;
	int32		id;				/* 0: unknown */
	bool		counted;		/* link_count has the number of links from this source */
	bool		asked;			/* the source is to be added to the table */
	uint64		record;			/* number of the last record in which the source was counted */
} AtpLinkSource;

/* Sources looked up together, allocated in the memory context of the call of atp_link_ids_begin(). */
typedef struct AtpLinkIds AtpLinkIds;

extern AtpLinkIds *atp_link_ids_begin(AtpApply *a);

/* The source of this collection and path.  The collection's value is not copied, the path is. */
extern AtpLinkSource *atp_link_ids_source(AtpLinkIds *ids, const struct varlena *collection, AtpSpan path);

/* Number of sources without an id. */
extern int	atp_link_ids_unknown(const AtpLinkIds *ids);

/* Look up the sources without an id in the table.  Returns how many of them the table lacks. */
extern int	atp_link_ids_find(AtpLinkIds *ids);

/*
 * Add the sources marked as asked to the table.  named: with an id above ATP_LINK_SOURCES_MAX, as for an operator;
 * otherwise with an id up to this limit, while there is room.
 */
extern void atp_link_ids_add(AtpLinkIds *ids, bool named);

/* Are the ids for sources from records used up, as far as this process knows? */
extern bool atp_link_ids_full(const AtpLinkIds *ids);

#endif							/* ATP_LINK_IDS_H */
