/*
 * stream_request.c
 *		The request for a stream.
 *
 * A filter is sent to the server completely or not at all.  The consumer applies all filters again to
 * the events it receives.
 */
#include "postgres.h"

#include "config/stream_request.h"
#include "lib/stringinfo.h"
#include "source.h"
#include "types/types.h"

#define TARGET_MAX	8000		/* bytes that servers and proxies accept in the first line of a request */
#define HELLO_MAX	1000000		/* bytes of the text message with the filters */

/* Is this a parameter which the extension sets itself?  Then the parameter in the operator's URL is left out. */
static bool
is_ours(const AtpStreamKind *source, const char *parameter)
{
	const char *const ours[] = {source->compress, source->hello, source->dictionary_parameter};
	size_t		len = strcspn(parameter, "=&");

	for (int i = 0; i < lengthof(ours); i++)
		if (ours[i] != NULL && strlen(ours[i]) == len && strncmp(parameter, ours[i], len) == 0)
			return true;
	return false;
}

static char *
own_query(const AtpSubscription *sub)
{
	StringInfoData out;
	const char *p = sub->ep->query;

	initStringInfo(&out);
	while (*p != '\0')
	{
		size_t		len = strcspn(p, "&");

		if (len > 0 && !is_ours(sub->source, p))
			appendStringInfo(&out, "%s%.*s", out.len > 0 ? "&" : "", (int) len, p);
		p += len + (p[len] == '&');
	}
	return out.data;
}

static void
append_parameter(StringInfo query, const char *name, const char *value)
{
	appendStringInfo(query, "%s%s=", query->len > 0 ? "&" : "", name);
	/* '%' is the only character of a DID or a pattern with a special meaning in a query */
	for (const char *p = value; *p != '\0'; p++)
		if (*p == '%')
			appendStringInfoString(query, "%25");
		else
			appendStringInfoChar(query, *p);
}

/* The text of a DID, in a buffer that is reused, since there can be thousands of DIDs. */
static const char *
did_text(const struct varlena *did, char text[ATP_DID_MAX + 1])
{
	text[atp_did_copy(did, text)] = '\0';
	return text;
}

static void
append_filters(StringInfo query, const AtpStreamRequest *request, const AtpStreamKind *source, const AtpSettings *settings)
{
	char		did[ATP_DID_MAX + 1];

	for (int i = 0; request->collections && i < settings->ncollections; i++)
		append_parameter(query, source->collections, settings->collections[i]);
	for (int i = 0; request->dids && i < settings->ndids; i++)
		append_parameter(query, source->dids, did_text(settings->dids[i], did));
}

/* No character of a DID or a pattern has to be escaped in JSON. */
static char *
hello_of(const AtpStreamRequest *request, const AtpStreamKind *source, const AtpSettings *settings)
{
	char		did[ATP_DID_MAX + 1];
	StringInfoData hello;

	initStringInfo(&hello);
	appendStringInfo(&hello, "{\"type\":\"options_update\",\"payload\":{\"%s\":[", source->collections);
	for (int i = 0; request->collections && i < settings->ncollections; i++)
		appendStringInfo(&hello, "%s\"%s\"", i > 0 ? "," : "", settings->collections[i]);
	appendStringInfo(&hello, "],\"%s\":[", source->dids);
	for (int i = 0; request->dids && i < settings->ndids; i++)
		appendStringInfo(&hello, "%s\"%s\"", i > 0 ? "," : "", did_text(settings->dids[i], did));
	appendStringInfoString(&hello, "]}}");
	return hello.data;
}

/*
 * Can the collections be sent to the server?  Not "*" among them, and not an empty list, which for the server
 * means all collections.
 */
static bool
can_say_collections(const AtpStreamKind *source, const AtpSettings *settings)
{
	for (int i = 0; i < settings->ncollections; i++)
		if (strcmp(settings->collections[i], "*") == 0)
			return false;
	return source->collections != NULL && settings->ncollections > 0 && settings->ncollections <= source->collections_max;
}

/* Put the filters into the query or, if too long for a query, into a text message. */
static void
add_filters(AtpStreamRequest *request, StringInfo query, const AtpSubscription *sub)
{
	const AtpStreamKind *source = sub->source;
	const AtpSettings *settings = &sub->settings;
	int			len = query->len;
	int			room = TARGET_MAX - strlen(sub->ep->path);

	request->collections = can_say_collections(source, settings);
	request->dids = source->dids != NULL && settings->ndids > 0 && settings->ndids <= source->dids_max;
	append_filters(query, request, source, settings);
	if (query->len <= room)
		return;
	query->data[query->len = len] = '\0';
	if (source->hello != NULL)
	{
		request->hello = hello_of(request, source, settings);
		if (strlen(request->hello) <= HELLO_MAX)
		{
			append_parameter(query, source->hello, "true");
			return;
		}
		request->hello = NULL;
	}
	request->dids = false;
	append_filters(query, request, source, settings);
	if (query->len <= room)
		return;
	query->data[query->len = len] = '\0';
	request->collections = false;
}

/* The position to request: before the cursor by the source's rewind; for cursor 0 the source's oldest. */
static int64
cursor_of(const AtpStreamKind *source, int64 cursor)
{
	return cursor == 0 ? source->oldest : Max(cursor - source->rewind, 1);
}

AtpStreamRequest
atp_stream_request(const AtpSubscription *sub, int64 cursor, uint32 dictionary)
{
	const AtpStreamKind *source = sub->source;
	AtpStreamRequest request = {0};
	StringInfoData query;

	initStringInfo(&query);
	appendStringInfoString(&query, own_query(sub));
	request.url = query.len > 0;
	if (dictionary != 0 && source->compress != NULL)
		append_parameter(&query, source->compress, "true");
	if (dictionary != 0 && source->dictionary_parameter != NULL)
		append_parameter(&query, source->dictionary_parameter, psprintf("%u", dictionary));
	if (cursor >= 0)
		append_parameter(&query, "cursor", psprintf(INT64_FORMAT, cursor_of(source, cursor)));
	add_filters(&request, &query, sub);
	request.target = psprintf("%s%s%s", sub->ep->path, query.len > 0 ? "?" : "", query.data);
	return request;
}
