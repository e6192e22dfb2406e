/*
 * repo_paths.c
 *		The column rev_paths of the table repo: which operations of the last revision were applied.
 */
#include "postgres.h"

#include "common/compat.h"
#include "tables/repos/repo_paths.h"
#include "types/types.h"

/*
 * The number of kept paths.  A commit has 200 operations at most, so a commit never exceeds this.  After a #sync all records
 * of the repository arrive with one revision and may be more; then the last paths suffice, because a stream that is
 * resumed repeats only its last events.
 */
#define PATHS_MAX	256

/* The mark of atp_paths_anew(), stored as the first element in place of a hash; an event without a path has it, too. */
#define ANEW	UINT64CONST(0)

static int
count_paths(const bytea *paths)
{
	return paths == NULL ? 0 : (int) (VARSIZE_ANY_EXHDR(paths) / sizeof(uint64));
}

bool
atp_paths_have(const bytea *paths, uint64 path)
{
	for (int i = 0; i < count_paths(paths) && path != ANEW; i++)
		if (memcmp(VARDATA_ANY(paths) + i * sizeof(path), &path, sizeof(path)) == 0)
			return true;
	return false;
}

bytea *
atp_paths_add(const bytea *paths, uint64 path)
{
	const char *old = paths == NULL ? NULL : VARDATA_ANY(paths);
	int			n = count_paths(paths);
	int			kept = Min(n, PATHS_MAX - 1);
	bytea	   *more = palloc(VARHDRSZ + (kept + 1) * sizeof(path));
	char	   *to = VARDATA(more);

	SET_VARSIZE(more, VARHDRSZ + (kept + 1) * sizeof(path));
	if (kept > 0)
		memcpy(to, old + (n - kept) * sizeof(path), kept * sizeof(path));
	if (n > kept && atp_paths_are_anew(paths))
		memcpy(to, old, sizeof(path));
	memcpy(to + kept * sizeof(path), &path, sizeof(path));
	return more;
}

bytea *
atp_paths_anew(void)
{
	return atp_paths_add(NULL, ANEW);
}

bool
atp_paths_are_anew(const bytea *paths)
{
	uint64		first;

	if (count_paths(paths) == 0)
		return false;
	memcpy(&first, VARDATA_ANY(paths), sizeof(first));
	return first == ANEW;
}

bytea *
atp_paths_none(void)
{
	return atp_varlena(NULL, 0);
}
