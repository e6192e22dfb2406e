/*
 * passed.c
 *		Which kinds of rows this process has written since the catalog last changed.
 *
 * An error of class 42 for a row has one of two causes: the schema is broken, or a user's trigger fails because of
 * the row's value.  If this process has written rows of the same kind since the last change of the catalog, then
 * the schema works, and the row is to blame.  Forgetting too early does no harm: suspect.c then waits for further
 * rows.
 */
#include "postgres.h"

#include "config/watch.h"
#include "miscadmin.h"
#include "tables/apply/passed.h"
#include "utils/inval.h"
#include "utils/syscache.h"

/* The number of (schema, role) pairs kept; a fetcher fills many schemas as their owners, and replaces the oldest entry. */
#define TARGETS_MAX	8

typedef struct Target
{
	char		name[NAMEDATALEN];
	Oid			role;			/* the role that wrote the rows; a different role may lack rights on functions that a trigger calls */
	bool		passed[ATP_PASSED_KINDS];
} Target;

static Target targets[TARGETS_MAX];
static int	next;

static void
relation_changed(Oid relid)
{
	memset(targets, 0, sizeof(targets));
}

static void
catalog_changed(Datum arg, int cache, uint32 hash)
{
	memset(targets, 0, sizeof(targets));
}

static void
watch_catalog(void)
{
	static const int caches[] = {PROCOID, TYPEOID, OPEROID, CASTSOURCETARGET, NAMESPACEOID, AUTHMEMMEMROLE};
	static bool watching = false;

	if (watching)
		return;
	atp_watch_relations(relation_changed);
	for (int i = 0; i < lengthof(caches); i++)
		CacheRegisterSyscacheCallback(caches[i], catalog_changed, (Datum) 0);
	watching = true;
}

static Target *
find_target(const char *name)
{
	for (int i = 0; i < TARGETS_MAX; i++)
		if (strcmp(targets[i].name, name) == 0 && targets[i].role == GetUserId())
			return &targets[i];
	return NULL;
}

void
atp_passed_note(const char *target, AtpPassed kind)
{
	Target	   *t = find_target(target);

	watch_catalog();
	if (t == NULL)
	{
		t = &targets[next];
		next = (next + 1) % TARGETS_MAX;
		memset(t, 0, sizeof(Target));
		strlcpy(t->name, target, NAMEDATALEN);
		t->role = GetUserId();
	}
	t->passed[kind] = true;
}

bool
atp_has_passed(const char *target, AtpPassed kind)
{
	const Target *t = find_target(target);

	return t != NULL && t->passed[kind];
}
