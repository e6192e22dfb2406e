/*
 * jetstream_message.h
 *		the messages of Jetstream, both versions (F-40 to F-42, J-24 to J-26): what they say of the stream and of an
 *		operation.  Their bodies, a record or an event of subscribeRepos, stay JSON.
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
	AtpSpan		body;			/* a record, or an event that is wrapped; ptr NULL: none */
	uint8_t		cid[ATP_CID_MAX];	/* of the record */
	AtpJsonTexts texts;
} AtpJetstream;

/*
 * Parse the payload of a message of /subscribe, or of subscribeEvents.
 *
 * msg->kind is set as with atp_repos_parse(), and msg->seq and did likewise also when there is an
 * error.  A #commit has one operation, whose path is in more->texts; of other events
 * the body has the rest.  *at counts from the payload's start.
 */
extern AtpErr atp_jetstream_parse_v1(AtpBytes payload, AtpReposMessage *msg, AtpJetstream *more, size_t *at);
extern AtpErr atp_jetstream_parse_v2(AtpBytes payload, AtpReposMessage *msg, AtpJetstream *more, size_t *at);

/* The body of an event that is wrapped, as DAG-CBOR: the rest of what msg has, but for seq and time. */
extern AtpErr atp_jetstream_unwrap(AtpBytes body, AtpReposMessage *msg, size_t *at);

#endif							/* ATP_JETSTREAM_MESSAGE_H */
