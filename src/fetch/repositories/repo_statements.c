/*
 * repo_statements.c
 *		Caches prepared statements on the tables of a target for all its repositories: preparing
 *		statements takes longer than the whole merge of a small repository.
 */
#include "postgres.h"

#include "fetch/repositories/repo_statements.h"
#include "lib/ilist.h"
#include "utils/memutils.h"

/* Unused sets that are kept. */
#define IDLE_MAX	8

typedef struct Set
{
	dlist_node	node;
	AtpStatements *statements;
	Oid			owner;
	int			users;
	bool		spoilt;
} Set;

static dlist_head sets = DLIST_STATIC_INIT(sets);	/* most recently used first */

static void
free_set(Set *set)
{
	dlist_delete(&set->node);
	atp_statements_free(set->statements);
	pfree(set);
}

/* Free spoilt sets that no transfer uses, and unused sets beyond IDLE_MAX. */
static void
forget_idle(void)
{
	dlist_mutable_iter iter;
	int			idle = 0;

	dlist_foreach_modify(iter, &sets)
	{
		Set		   *set = dlist_container(Set, node, iter.cur);

		if (set->users == 0 && (set->spoilt || idle++ >= IDLE_MAX))
			free_set(set);
	}
}

AtpStatements *
atp_repo_statements_get(const char *target, Oid owner)
{
	dlist_iter	iter;
	Set		   *set;

	dlist_foreach(iter, &sets)
	{
		set = dlist_container(Set, node, iter.cur);
		if (set->spoilt || set->owner != owner || strcmp(atp_target(set->statements), target) != 0)
			continue;
		dlist_move_head(&sets, &set->node);
		set->users++;
		return set->statements;
	}
	set = MemoryContextAllocZero(TopMemoryContext, sizeof(Set));
	set->statements = atp_statements_create(target, ATP_WRITER_OTHER);
	set->owner = owner;
	set->users = 1;
	dlist_push_head(&sets, &set->node);
	return set->statements;
}

void
atp_repo_statements_put(AtpStatements *statements, bool spoilt)
{
	dlist_iter	iter;

	dlist_foreach(iter, &sets)
	{
		Set		   *set = dlist_container(Set, node, iter.cur);

		if (set->statements != statements)
			continue;
		set->users--;
		set->spoilt |= spoilt;
		break;
	}
	forget_idle();
}
