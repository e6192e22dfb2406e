/*
 * source.c
 *		The kinds of streams that there are.  Nothing else knows their names.
 */
#include "postgres.h"

#include "source.h"
#include "stream/format.h"
#include "tables/sink.h"

/* The first that fits counts. */
static const AtpSource sources[] = {
	{"com.atproto.sync.subscribeRepos", "dag-cbor", &atp_repos_format, &atp_repos_sink,
	.by_repo = true, .is_signed = true, .has_chain = true},
	{"com.atproto.label.subscribeLabels", "dag-cbor", &atp_labels_format, &atp_labels_sink, .is_signed = true},
	/* whatever it is, its messages are kept */
	{NULL, "dag-cbor", &atp_message_format, &atp_message_sink},
};

static bool
fits(const AtpSource *source, const char *stream, const char *format)
{
	/* a path without an NSID is nothing but what is known of it */
	if (source->stream == NULL ? stream[0] == '/' : strcmp(source->stream, stream) != 0)
		return false;
	return format == NULL || strcmp(source->format_name, format) == 0;
}

const AtpSource *
atp_source_of(const char *stream, const char *format)
{
	for (int i = 0; i < lengthof(sources); i++)
		if (fits(&sources[i], stream, format))
			return &sources[i];
	return NULL;
}
