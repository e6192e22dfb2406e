/*
 * export.h
 *		An account's export, a CAR file with all of its repository: taken as it
 *		comes, checked as a whole, and read in the order of its paths.
 *
 * What is wrong with it is no ERROR, for an export comes from strangers: a
 * function says so, and atp_export_fault() why.  Memory and temporary files may
 * end in an ERROR.
 */
#ifndef ATP_EXPORT_H
#define ATP_EXPORT_H

#include "postgres.h"

#include "common/compat.h"
#include "core/repo/export_walk.h"

/* Settings: bounds of one export, and of the memory of all. */
extern int	atp_fetch_memory_kb;
extern int	atp_max_repo_kb;
extern int	atp_max_repo_records;

extern void atp_export_init(void);

typedef struct AtpExport AtpExport;

typedef enum AtpExportState
{
	ATP_EXPORT_MORE,			/* not at its end */
	ATP_EXPORT_DONE,
	ATP_EXPORT_BAD				/* atp_export_fault() */
} AtpExportState;

typedef struct AtpExportFault
{
	int			sqlstate;
	const char *text;			/* what, and where */
	const char *detail;			/* why; NULL: text says it */
} AtpExportFault;

/* Of this account.  across: it outlives transactions, and atp_export_free() is called whatever happens. */
extern AtpExport *atp_export_create(MemoryContext parent, AtpSpan did, bool across);
extern void atp_export_free(AtpExport *e);

/* Bytes of memory that it has now: what is bounded, and the index of its blocks. */
extern Size atp_export_memory(const AtpExport *e);
extern Size atp_export_index(const AtpExport *e);

/* The next bytes of the file; then that they were all.  False: it is bad. */
extern bool atp_export_take(AtpExport *e, const uint8_t *data, Size n);
extern bool atp_export_finish(AtpExport *e);

/* After that: the commit, and its CID, of ATP_CID_BLESSED_LEN bytes. */
extern const AtpCommit *atp_export_head(const AtpExport *e);
extern AtpBytes atp_export_head_cid(const AtpExport *e);

/* Is its signature of this key? (V-05 to V-08) */
extern bool atp_export_is_signed(const AtpExport *e, const uint8_t key[]);

/* Check so many records more: when it is DONE, the tree is whole, and all records are there. */
extern AtpExportState atp_export_check(AtpExport *e, int records);

/* To the first record, and so often as anybody wants. */
extern bool atp_export_rewind(AtpExport *e);
extern AtpExportState atp_export_fetch(AtpExport *e, AtpExportRecord *record);

/* The block of that record, valid until the next one is asked for. */
extern bool atp_export_block(AtpExport *e, AtpBytes cid, AtpBytes *block);

extern const AtpExportFault *atp_export_fault(const AtpExport *e);

/* That, as an ERROR. */
pg_noreturn extern void atp_export_error(const AtpExport *e);

#endif							/* ATP_EXPORT_H */
