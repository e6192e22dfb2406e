/*
 * jetstream_message.h
 *		Parser of the messages of Jetstream, both versions (F-40 to F-42, J-24 to J-26): sequence number, kind
 *		and operation.  The body, a record or an event of subscribeRepos, stays JSON.
 */
#ifndef ATP_JETSTREAM_MESSAGE_H
#define ATP_JETSTREAM_MESSAGE_H

#include "core/codec/cid.h"
#include "core/codec/json_text.h"
#include "core/wire/repos_message.h"

#define ATP_NSID_JETSTREAM	"network.bsky.jetstream.subscribeEvents"

typedef struct AtpJetstream
{
	int64_t		time;			/* microseconds since the Unix epoch; 0: msg->time */
	bool		others;			/* the message may have members that are not known (members.h) */
	AtpSpan		body;			/* a record, or a wrapped event; ptr NULL: absent */
	uint8_t		cid[ATP_CID_MAX];	/* CID of the record */
	AtpJsonTexts texts;
} AtpJetstream;

/*
 * Parse the payload of a message of /subscribe (version 1: F-40, F-41), or of subscribeEvents (version 2: F-42).
 *
 * msg->kind is set as by atp_repos_parse().  Also when an error is returned, msg->seq is set if it is valid (J-24), and
 * msg->did if the members of the message could be read and the DID is valid.
 *
 * A #commit has one operation, whose path lies in more->texts.  For other events, more->body has the rest.  *at
 * counts from the payload's start.
 */
extern AtpErr atp_jetstream_parse_v1(AtpBytes payload, AtpReposMessage *msg, AtpJetstream *more, size_t *at);
extern AtpErr atp_jetstream_parse_v2(AtpBytes payload, AtpReposMessage *msg, AtpJetstream *more, size_t *at);

/* Fills msg from the body of a wrapped event, converted to DAG-CBOR; seq and time of msg are kept. */
extern AtpErr atp_jetstream_unwrap(AtpBytes body, AtpReposMessage *msg, size_t *at);

#endif							/* ATP_JETSTREAM_MESSAGE_H */
