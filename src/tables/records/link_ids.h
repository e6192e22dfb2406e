/*
 * link_ids.h
 *		The sources of links, and their ids, as this process knows them.
 */
#ifndef ATP_LINK_IDS_H
#define ATP_LINK_IDS_H

#include "core/atp.h"
#include "tables/base/sink.h"

/* A source: of a collection's records, at a path. */
typedef struct AtpLinkPlace
{
	const struct varlena *collection;
	AtpSpan		path;
	uint32		hash;
	int32		id;				/* 0: not known */
	bool		asked;			/* it is to be added */
	uint64		record;		/* the last record in which it was counted */
} AtpLinkPlace;

/* Those that are looked at together; all of it goes with the memory that is current when they begin. */
typedef struct AtpLinkIds AtpLinkIds;

extern AtpLinkIds *atp_link_ids_begin(AtpApply *a);

/* The collection's value must stay. */
extern AtpLinkPlace *atp_link_ids_place(AtpLinkIds *ids, const struct varlena *collection, AtpSpan path);

/* How many places are not known yet. */
extern int	atp_link_ids_unknown(const AtpLinkIds *ids);

/* Look in the table for those that are not known.  Returns how many are not there. */
extern int	atp_link_ids_find(AtpLinkIds *ids);

/* Add those that are asked for: as an operator would, or as what records bring, while there is room. */
extern void atp_link_ids_add(AtpLinkIds *ids, bool named);

/* Is there no room for others, as far as this process knows? */
extern bool atp_link_ids_full(const AtpLinkIds *ids);

#endif							/* ATP_LINK_IDS_H */
