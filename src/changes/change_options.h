/*
 * change_options.h
 *		The options with which a reader starts to read a slot.
 */
#ifndef ATP_CHANGE_OPTIONS_H
#define ATP_CHANGE_OPTIONS_H

#include "postgres.h"

#include "nodes/pg_list.h"

#define ATP_CHANGE_COMMITS		1
#define ATP_CHANGE_IDENTITIES	2
#define ATP_CHANGE_ACCOUNTS		4
#define ATP_CHANGE_LABELS		8

typedef struct AtpChangeOptions
{
	List	   *targets;		/* char *; NIL: all */
	List	   *collections;	/* char *, patterns; NIL: all */
	struct varlena **dids;		/* sorted */
	int			ndids;			/* 0: all */
	int			kinds;			/* ATP_CHANGE_... */
	int			max_message;	/* bytes */
	bool		old;			/* tell the old row */
	bool		positions;		/* tell the position also after a transaction that only moved a source's cursor */
} AtpChangeOptions;

/* options: DefElem.  An ERROR for an option that does not exist, or for a wrong value. */
extern AtpChangeOptions atp_change_options(List *options);

extern bool atp_change_has_target(const AtpChangeOptions *options, const char *target);
extern bool atp_change_has_collection(const AtpChangeOptions *options, const char *collection);
extern bool atp_change_has_did(const AtpChangeOptions *options, struct varlena *did);

#endif							/* ATP_CHANGE_OPTIONS_H */
