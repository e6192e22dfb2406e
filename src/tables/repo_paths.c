/*
 * repo_paths.c
 *		Which operations of a revision were taken.
 */
#include "postgres.h"

#include "compat.h"
#include "tables/repo_paths.h"
#include "types/types.h"

/*
 * A commit has 200 operations at most.  More events of one revision come after a #sync, whose
 * records all have it; then the last ones are enough, since only these are sent once more.
 */
#define PATHS_MAX	256

static int
count(const bytea *paths)
{
	return paths == NULL ? 0 : (int) (VARSIZE_ANY_EXHDR(paths) / sizeof(uint64));
}

bool
atp_paths_have(const bytea *paths, uint64 path)
{
	for (int i = 0; i < count(paths); i++)
		if (memcmp(VARDATA_ANY(paths) + i * sizeof(path), &path, sizeof(path)) == 0)
			return true;
	return false;
}

bytea *
atp_paths_add(const bytea *paths, uint64 path)
{
	int			n = Min(count(paths), PATHS_MAX - 1);
	bytea	   *more = palloc(VARHDRSZ + (n + 1) * sizeof(path));

	SET_VARSIZE(more, VARHDRSZ + (n + 1) * sizeof(path));
	if (n > 0)
		memcpy(VARDATA(more), VARDATA_ANY(paths) + (count(paths) - n) * sizeof(path), n * sizeof(path));
	memcpy(VARDATA(more) + n * sizeof(path), &path, sizeof(path));
	return more;
}

bytea *
atp_paths_none(void)
{
	return atp_varlena(NULL, 0);
}
