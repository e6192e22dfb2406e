/*
 * passed.c
 *		Which kinds of rows this process has written since the catalog changed last.
 *
 * A row that the database refuses with an error of class 42 says nothing by
 * itself: the schema may be broken, or the row's value may be what a trigger
 * stumbles over.  That rows of the same kind were written, and that nothing was
 * defined otherwise since, speaks for the schema.  What is forgotten here too
 * early only makes a process wait for other rows.
 */
#include "postgres.h"

#include "miscadmin.h"
#include "tables/apply/passed.h"
#include "utils/inval.h"
#include "utils/syscache.h"

/* A fetcher brings exports into many schemas, as their owners: of the others, the oldest is forgotten. */
#define TARGETS_MAX	8

typedef struct Target
{
	char		name[NAMEDATALEN];
	Oid			role;			/* that wrote them: it may call what a trigger calls, another role may not */
	bool		passed[ATP_PASSED_KINDS];
} Target;

static Target targets[TARGETS_MAX];
static int	next;

static void
relation_changed(Datum arg, Oid relid)
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
	CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
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
