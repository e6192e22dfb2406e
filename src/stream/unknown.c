/*
 * unknown.c
 *		Names in messages that this version does not know: see unknown.h.
 */
#include "postgres.h"

#include "core/syntax/printable.h"
#include "stream/unknown.h"
#include "utils/guc.h"

#define NAMES_MAX	16			/* names remembered of each sort */
#define LISTED_MAX	128			/* bytes of a name in atproto.qualifying_names */

static char *qualifying_names;

/* The names of one sort: the last place is for the note that there are more. */
typedef struct Names
{
	int			n;
	int			ntold;
	AtpUnknownName list[NAMES_MAX + 1];
} Names;

/*
 * For each kind of object the members that are ignored; then the kinds of messages; then, again for each kind of object, the
 * members that qualify it.  Strangers choose members that are ignored, and these must not keep out a member that qualifies.
 */
static Names names[2 * ATP_OF_COUNT + 1];

static bool unplaced;			/* some name has no sequence number yet */
static int	untold;				/* so many names were not told yet */

static Names *
names_of(int of, bool applied)
{
	return &names[of == ATP_OF_COUNT || applied ? of : of + ATP_OF_COUNT + 1];
}

/* The next name of a list that is separated by commas; false: no more.  A name may be empty. */
static bool
next_listed(const char **list, AtpSpan *name)
{
	const char *p = *list;
	const char *end;

	if (p == NULL)
		return false;
	end = strchr(p, ',');
	*list = end == NULL ? NULL : end + 1;
	if (end == NULL)
		end = p + strlen(p);
	while (p < end && *p == ' ')
		p++;
	while (p < end && end[-1] == ' ')
		end--;
	*name = (AtpSpan) {p, end - p};
	return true;
}

/*
 * Is the name in the list, alone or with the word for its object before it: "audience", or "#commit.audience"?  excepted: behind
 * a minus.
 */
static bool
is_listed(AtpMemberOf of, AtpSpan name, bool excepted)
{
	const char *list = qualifying_names;
	const char *object = atp_member_of_name(of);
	size_t		n = strlen(object);
	AtpSpan		entry;

	while (next_listed(&list, &entry))
	{
		if (excepted != (entry.len > 0 && entry.ptr[0] == '-'))
			continue;
		entry = (AtpSpan) {entry.ptr + excepted, entry.len - excepted};
		if (entry.len == name.len + n + 1 && memcmp(entry.ptr, object, n) == 0 && entry.ptr[n] == '.')
			entry = (AtpSpan) {entry.ptr + n + 1, name.len};
		if (entry.len > 0 && entry.len == name.len && memcmp(entry.ptr, name.ptr, name.len) == 0)
			return true;
	}
	return false;
}

bool
atp_unknown_is_listed(const char *kind)
{
	const char *list = qualifying_names;
	AtpSpan		entry;

	while (next_listed(&list, &entry))
		if (atp_span_is(entry, kind))
			return true;
	return false;
}

/* Remember a name, if it is new and there is room.  seq: see atp_unknown_came(). */
static void
remember_name(int of, const char *name, bool applied, int64 seq)
{
	Names	   *n = names_of(of, applied);
	AtpUnknownName *new = &n->list[n->n];

	/* a message may have a million members, and each of them gets here */
	if (n->n == lengthof(n->list))
		return;
	for (int i = 0; i < n->n; i++)
		if (strcmp(n->list[i].name, name) == 0)
			return;
	*new = (AtpUnknownName) {.of = of, .applied = applied, .more = n->n == NAMES_MAX, .seq = seq};
	if (!new->more)
		strlcpy(new->name, name, sizeof(new->name));
	n->n++;
	unplaced |= seq < 0;
	untold++;
}

/* A name as it is remembered: its beginning, printable. */
static void
take_name(AtpSpan name, char *copy)
{
	size_t		n = Min(name.len, ATP_UNKNOWN_NAME - 1);

	memcpy(copy, name.ptr, n);
	atp_make_printable(copy, n);
	copy[n] = '\0';
}

/* A member was met: ctx is a flag, set if the member qualifies the object. */
static void
see_member(void *ctx, AtpMemberOf of, AtpSpan name, bool is_null)
{
	bool	   *qualifies = ctx;
	bool		listed = is_listed(of, name, false) || (atp_member_qualifies(of, name) && !is_listed(of, name, true));
	char		copy[ATP_UNKNOWN_NAME];

	/* a member that is null is absent, to the protocol */
	if (is_null)
		return;
	*qualifies |= listed;
	take_name(name, copy);
	remember_name(of, copy, !listed, -1);
}

bool
atp_unknown_in_cbor(AtpBytes map, AtpMemberOf of)
{
	bool		qualifies = false;

	atp_members_cbor(map, of, see_member, &qualifies);
	return qualifies;
}

/* A map of six pairs: the members that each commit has. */
#define MAP_OF_SIX	0xa6

bool
atp_unknown_in_commit(AtpBytes block)
{
	return block.ptr[0] != MAP_OF_SIX && atp_unknown_in_cbor(block, ATP_OF_SIGNED);
}

bool
atp_unknown_in_json(AtpSpan object, AtpMemberOf of)
{
	bool		qualifies = false;

	atp_members_json(object, of, see_member, &qualifies);
	return qualifies;
}

void
atp_unknown_kind(AtpSpan kind)
{
	char		copy[ATP_UNKNOWN_NAME];

	take_name(kind, copy);
	remember_name(ATP_OF_COUNT, copy, false, -1);
}

void
atp_unknown_came(int64 seq)
{
	for (int sort = 0; sort < lengthof(names) && unplaced; sort++)
		for (int i = names[sort].n; i > 0 && names[sort].list[i - 1].seq < 0; i--)
			names[sort].list[i - 1].seq = seq;
	unplaced = false;
}

const AtpUnknownName *
atp_unknown_next(void)
{
	for (int sort = 0; sort < lengthof(names) && untold > 0; sort++)
		if (names[sort].ntold < names[sort].n)
			return &names[sort].list[names[sort].ntold];
	return NULL;
}

void
atp_unknown_told(const AtpUnknownName *name)
{
	names_of(name->of, name->applied)->ntold++;
	untold--;
}

void
atp_unknown_add(const AtpUnknownName *name)
{
	remember_name(name->of, name->name, name->applied, name->seq);
}

static bool
check_names(char **value, void **extra, GucSource source)
{
	const char *list = *value;
	AtpSpan		entry;

	while (list != NULL && **value != '\0' && next_listed(&list, &entry))
	{
		bool		fits = entry.len > 0 && entry.len <= LISTED_MAX;

		for (size_t i = 0; i < entry.len; i++)
			fits = fits && entry.ptr[i] > ' ' && entry.ptr[i] <= '~';
		if (!fits)
		{
			GUC_check_errdetail("A name has 1 to %d printable ASCII characters, and no space.", LISTED_MAX);
			GUC_check_errhint("It looks like \"audience, #commit.visibility, #tombstone\".");
			return false;
		}
	}
	return true;
}

void
atp_unknown_init(void)
{
	DefineCustomStringVariable("atproto.qualifying_names",
							   "Names that say that a message is not of an account's public data.",
							   "A comma-separated list of members, such as audience or #commit.audience, and of kinds of messages, such as #sync.",
							   &qualifying_names, "", PGC_SIGHUP, GUC_SUPERUSER_ONLY, check_names, NULL, NULL);
}
