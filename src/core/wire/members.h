/*
 * members.h
 *		The members of a message that this version does not know (E-23, S-11).
 *
 * Parsers pass over unknown members.  A member may say, however, that the known members mean something else: that a
 * commit is of a space (permissioned data), say, and not of the account's public repository.  The functions here walk
 * through the members of a message again, and name the unknown ones to the caller.
 */
#ifndef ATP_MEMBERS_H
#define ATP_MEMBERS_H

#include "core/atp.h"

/* The objects whose members are known, by the kind of message. */
typedef enum AtpMemberOf
{
	ATP_OF_FRAME,				/* header of a frame in DAG-CBOR, or the frame in one object */
	ATP_OF_JSON_FRAME,			/* frame in JSON (xrpc.v1.json) */
	ATP_OF_COMMIT,				/* subscribeRepos; with the operations */
	ATP_OF_SYNC,
	ATP_OF_IDENTITY,
	ATP_OF_ACCOUNT,
	ATP_OF_INFO,
	ATP_OF_OP,					/* an operation of a #commit */
	ATP_OF_SIGNED,				/* the signed commit of a repository */
	ATP_OF_JETSTREAM_V1,		/* message of Jetstream, version 1 */
	ATP_OF_JETSTREAM_V1_COMMIT, /* its member "commit" */
	ATP_OF_JETSTREAM_V2,		/* message of Jetstream, version 2 */
	ATP_OF_LABELS,				/* subscribeLabels */
	ATP_OF_LABEL,
	ATP_OF_COUNT
} AtpMemberOf;

/* The word for the object, as an operator reads and writes it: "#commit". */
extern const char *atp_member_of_name(AtpMemberOf of);

extern bool atp_member_is_known(AtpMemberOf of, AtpSpan name);

/* S-11: does the name, where it is not known, say that the message is of a space?  (proposal 0016) */
extern bool atp_member_qualifies(AtpMemberOf of, AtpSpan name);

/* Receives each unknown member; name is valid during the call only.  is_null: the member has no value. */
typedef void (*AtpMemberSee) (void *ctx, AtpMemberOf of, AtpSpan name, bool is_null);

/*
 * Name the unknown members of an object, which is DAG-CBOR or JSON.  The walk ends at the first fault, which the
 * message's own parser reports.
 */
extern void atp_members_cbor(AtpBytes map, AtpMemberOf of, AtpMemberSee see, void *ctx);
extern void atp_members_json(AtpSpan object, AtpMemberOf of, AtpMemberSee see, void *ctx);

#endif							/* ATP_MEMBERS_H */
