/*
 * unknown.h
 *		Names in messages that this version does not know: members, and kinds of messages (S-10, S-12, S-14).
 *
 * An unknown member is passed over, unless it says that the message is of a space (S-11), or an operator has listed it
 * in atproto.qualifying_names: then no row of a public table is made of the message.  An operator learns of each name
 * from atproto.subscription_log.
 *
 * Servers and accounts choose these names.  So a process remembers a bounded number of them for each kind of object, and a
 * name's beginning only.  Members that qualify are counted apart: many other names must not hide the first of them.
 */
#ifndef ATP_UNKNOWN_H
#define ATP_UNKNOWN_H

#include "postgres.h"

#include "core/wire/members.h"

#define ATP_UNKNOWN_NAME	64	/* bytes of a name that are kept, with a NUL at the end */

/* A name of a member, or of a kind of messages. */
typedef struct AtpUnknownName
{
	int			of;				/* an AtpMemberOf; ATP_OF_COUNT: name is a kind of messages */
	bool		applied;		/* messages with this member are applied: the member does not qualify them */
	bool		more;			/* no name: further names of this kind of object are not remembered */
	int64		seq;			/* of the first message with the name; 0: unknown */
	char		name[ATP_UNKNOWN_NAME];
} AtpUnknownName;

extern void atp_unknown_init(void);

/* Name the unknown members of an object.  True: one of them says that no row may be made of the object. */
extern bool atp_unknown_in_cbor(AtpBytes map, AtpMemberOf of);
extern bool atp_unknown_in_json(AtpSpan object, AtpMemberOf of);

/* The same for a signed commit that atp_commit_parse() accepts. */
extern bool atp_unknown_in_commit(AtpBytes block);

/* S-12: has an operator listed this kind of messages, such as "#sync", as one that is not applied? */
extern bool atp_unknown_is_listed(const char *kind);

/* A message of an unknown kind came. */
extern void atp_unknown_kind(AtpSpan kind);

/* The sequence number of the message whose names were given last. */
extern void atp_unknown_came(int64 seq);

/* A name that this process has met and not told yet; NULL: none.  Call atp_unknown_told() for it, then ask for the next. */
extern const AtpUnknownName *atp_unknown_next(void);
extern void atp_unknown_told(const AtpUnknownName *name);

/* A worker has met the name. */
extern void atp_unknown_add(const AtpUnknownName *name);

#endif							/* ATP_UNKNOWN_H */
