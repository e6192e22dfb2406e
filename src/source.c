/*
 * source.c
 *		The table of the kinds of streams.  No other file compares names of streams.
 */
#include "postgres.h"

#include "core/wire/jetstream_message.h"
#include "core/wire/labels_message.h"
#include "core/wire/repos_message.h"
#include "datatype/timestamp.h"
#include "source.h"
#include "stream/format.h"
#include "tables/base/sink.h"

/* The first matching entry counts, so entries without a name come last. */
static const AtpStreamKind sources[] = {
	{ATP_NSID_REPOS, "dag-cbor", &atp_repos_format, &atp_repos_sink,
	.by_repo = true, .by_account = true, .is_signed = true, .has_chain = true},
	{ATP_NSID_LABELS, "dag-cbor", &atp_labels_format, &atp_labels_sink, .is_signed = true},
	{"/subscribe", "jetstream", &atp_jetstream_v1_format, &atp_repos_sink,
		.by_repo = true, .by_account = true, .is_text = true, .rewind = 10 * USECS_PER_SEC,
		.collections = "wantedCollections", .collections_max = 100, .dids = "wantedDids", .dids_max = 10000,
	.hello = "requireHello", .compress = "compress"},
	{ATP_NSID_JETSTREAM, "jetstream", &atp_jetstream_v2_format, &atp_repos_sink,
		.by_repo = true, .by_account = true, .is_text = true, .subprotocol = "xrpc.v1.json",
		.oldest = ATP_POSITION_TIME,
		.collections = "collections", .collections_max = 100, .dids = "dids", .dids_max = 10000,
	.dictionary_parameter = "zstdDictionary", .dictionary_nsid = "network.bsky.jetstream.getZstdDictionary",
	.archive = "network.bsky.jetstream"},
	{"/export/stream", "plc", &atp_plc_format, &atp_plc_sink, .by_account = true, .is_text = true, .pages = "/export"},
	/* An NSID without a row above: the messages are stored as received. */
	{NULL, "dag-cbor", &atp_message_format, &atp_message_sink},
	{NULL, "json", &atp_message_json_format, &atp_message_sink, .is_text = true, .subprotocol = "xrpc.v1.json"},
};

static bool
fits_stream(const AtpStreamKind *source, const char *stream, const char *format)
{
	/* A path that begins with a slash is not an NSID: only entries with exactly this path match. */
	if (source->stream == NULL ? stream[0] == '/' : strcmp(source->stream, stream) != 0)
		return false;
	return format == NULL || strcmp(source->format_name, format) == 0;
}

const AtpStreamKind *
atp_stream_kind_of(const char *stream, const char *format)
{
	for (int i = 0; i < lengthof(sources); i++)
		if (fits_stream(&sources[i], stream, format))
			return &sources[i];
	return NULL;
}
