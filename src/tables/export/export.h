/*
 * export.h
 *		An account's export: a CAR file with a whole repository.  The export is read as the bytes
 *		come, then checked as a whole, and then read in the order of its paths.
 *
 *		An export of some collections is made of blocks that came one by one
 *		(fetch/repositories/sparse_fetch.h), and is then checked and read alike.
 *
 * An export comes from strangers, so a fault of its content is no ERROR: the function returns false
 * or BAD, and atp_export_fault() has the reason.  Memory and temporary files may raise an ERROR.
 */
#ifndef ATP_EXPORT_H
#define ATP_EXPORT_H

#include "postgres.h"

#include "common/compat.h"
#include "core/repo/export_walk.h"

/* Settings: limits of an export, and of the memory of all exports. */
extern int	atp_fetch_memory_kb;
extern int	atp_max_repo_kb;
extern int	atp_max_repo_records;

extern void atp_export_init(void);

typedef struct AtpExport AtpExport;

typedef enum AtpExportState
{
	ATP_EXPORT_MORE,			/* not at the end */
	ATP_EXPORT_DONE,
	ATP_EXPORT_BAD				/* see atp_export_fault() */
} AtpExportState;

typedef struct AtpExportFault
{
	int			sqlstate;
	const char *text;			/* the fault, and its position */
	const char *detail;			/* the reason; NULL: text has the reason */
} AtpExportFault;

/*
 * Create the export of this account.  across: the export outlives transactions, and the caller must
 * call atp_export_free() in any case.
 */
extern AtpExport *atp_export_create(MemoryContext parent, AtpSpan did, bool across);
extern void atp_export_free(AtpExport *e);

/*
 * P-13: an export of some collections: of these ranges, joined, which stay the caller's.  Instead of atp_export_take()
 * and atp_export_finish(), atp_export_add() and atp_export_set_head().
 */
extern AtpExport *atp_export_create_parts(MemoryContext parent, AtpSpan did, const AtpKeyRange *ranges, size_t nranges);

/* Add a block under its CID, whose hash is right.  False: the export has a fault. */
extern bool atp_export_add(AtpExport *e, AtpBytes cid, AtpBytes block);

extern bool atp_export_has(const AtpExport *e, AtpBytes cid);

/* The commit is the block with this CID.  May be called again for a later commit.  False: the export has a fault. */
extern bool atp_export_set_head(AtpExport *e, AtpBytes cid);

/* The nodes, for core/repo/sparse_walk.h; blocks may be added while the walk goes on. */
extern AtpExportSource atp_export_nodes(AtpExport *e);

/* A fault that a walk over atp_export_nodes() has found. */
extern void atp_export_refuse(AtpExport *e, const AtpExportWalk *walk, AtpErr err, size_t at);

/* Bytes of memory in use, which has a limit, without the index; and bytes of the index of the blocks, which grows. */
extern Size atp_export_memory(const AtpExport *e);
extern Size atp_export_index(const AtpExport *e);

/* Take the next bytes of the file; finish after the last.  False: the export has a fault. */
extern bool atp_export_take(AtpExport *e, const uint8_t *data, Size n);
extern bool atp_export_finish(AtpExport *e);

/* After atp_export_finish(): the commit, and its CID, of ATP_CID_BLESSED_LEN bytes. */
extern const AtpCommit *atp_export_head(const AtpExport *e);
extern AtpBytes atp_export_head_cid(const AtpExport *e);

/* O-02: the commit's signature, and the commit's block if the row of the repository cannot do without the block (commit_keep.h). */
extern bytea *atp_export_head_keep(const AtpExport *e, bytea **block);

/* Is the commit signed with this key? (V-05 to V-08) */
extern bool atp_export_is_signed(const AtpExport *e, const uint8_t key[]);

/*
 * Check so many more records.  DONE: the tree is complete, and the blocks of all records are in the
 * export (R-43, R-44).
 */
extern AtpExportState atp_export_check(AtpExport *e, int records);

/* Go to the first record, any number of times; fetch the next record. */
extern bool atp_export_rewind(AtpExport *e);
extern AtpExportState atp_export_fetch(AtpExport *e, AtpExportRecord *record);

/* The block of a record, valid until the next call. */
extern bool atp_export_block(AtpExport *e, AtpBytes cid, AtpBytes *block);

extern const AtpExportFault *atp_export_fault(const AtpExport *e);

/* Raise the fault as an ERROR. */
pg_noreturn extern void atp_export_error(const AtpExport *e);

#endif							/* ATP_EXPORT_H */
