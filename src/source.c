/*
 * source.c
 *		The kinds of streams that there are.  Nothing else knows their names.
 */
#include "postgres.h"

#include "source.h"
#include "stream/format.h"
#include "tables/sink.h"

static const AtpSource sources[] = {
	{"com.atproto.sync.subscribeRepos", &atp_repos_format, &atp_repos_sink, .by_repo = true, .is_signed = true},
	{"com.atproto.label.subscribeLabels", &atp_labels_format, &atp_labels_sink, .is_signed = true},
	/* whatever it is, its messages are kept */
	{NULL, &atp_message_format, &atp_message_sink},
};

const AtpSource *
atp_source_of(const char *nsid)
{
	const AtpSource *source = sources;

	while (source->nsid != NULL && strcmp(source->nsid, nsid) != 0)
		source++;
	return source;
}
