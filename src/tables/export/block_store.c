/*
 * block_store.c
 *		Stores blocks of an export by CID: the first blocks in memory, the rest in a temporary file
 *		(R-46).
 *
 * A block is stored behind its CID.  The index has 16 bytes a block: 64 bits of the digest, the
 * position, and the length.  A sender can make two digests agree in 64 bits, so the CID is compared
 * when a block is read.  The file is not mapped into memory: if the disk failed, reading mapped
 * memory would raise SIGBUS, and the server would restart.
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "common/compat.h"
#include "core/codec/cid.h"
#include "tables/export/block_store.h"
#include "storage/fd.h"
#include "utils/memutils.h"
#include "utils/wait_event.h"

/*
 * The index is split into parts, each of which grows by itself: so little is copied at a time, and
 * little memory is needed twice.
 */
#define PARTS		256
#define PART_MIN	8

#define KEPT_MIN	(64 * 1024)

/* Bytes written to the file at a time. */
#define WRITE_BYTES	(64 * 1024)

/* Low bits of an entry's place are the length, high bits the position. */
#define LENGTH_BITS	21
#define LENGTH_MAX	((UINT64CONST(1) << LENGTH_BITS) - 1)

typedef struct BlockEntry
{
	uint64		key;
	uint64		place;			/* 0: no entry */
} BlockEntry;

typedef struct StorePart
{
	BlockEntry *entries;		/* open addressing, linear probing */
	uint32		room;
	uint32		n;
} StorePart;

struct AtpBlockStore
{
	MemoryContext cxt;
	bool		across;
	Size		memory;			/* limit for kept, in bytes */
	uint8_t    *kept;
	Size		kept_room;
	uint64		used;			/* bytes of all blocks with their CIDs; bytes from kept_used on
								 * belong to the file ... */
	Size		kept_used;
	bool		has_file;
	File		file;
	uint64		written;		/* ... and bytes from this position on are not in the file yet, but
								 * in unwritten */
	uint8_t    *unwritten;
	AtpBlockBuffer cid;			/* buffer for comparing CIDs */
	uint64		n;
	Size		index_bytes;
	uint64		add;			/* random: a sender must not be able to choose index slots, and so
								 * make searches slow */
	uint64		factor;
	StorePart	parts[PARTS];
};

AtpBlockStore *
atp_blocks_create(MemoryContext parent, Size memory, bool across)
{
	MemoryContext cxt = AllocSetContextCreate(parent, "atproto blocks", ALLOCSET_DEFAULT_SIZES);
	AtpBlockStore *s = MemoryContextAllocZero(cxt, sizeof(AtpBlockStore));

	s->cxt = cxt;
	s->memory = memory;
	s->across = across;
	if (!pg_strong_random(&s->add, sizeof(s->add)) || !pg_strong_random(&s->factor, sizeof(s->factor)))
		ereport(ERROR,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random numbers")));
	s->factor |= 1;
	return s;
}

void
atp_blocks_free(AtpBlockStore *s)
{
	if (s->has_file)
		FileClose(s->file);
	MemoryContextDelete(s->cxt);
}

uint64
atp_blocks_count(const AtpBlockStore *s)
{
	return s->n;
}

Size
atp_blocks_memory(const AtpBlockStore *s)
{
	return s->kept_room + s->cid.room + (s->has_file ? WRITE_BYTES : 0);
}

Size
atp_blocks_index(const AtpBlockStore *s)
{
	return s->index_bytes;
}

/* ------------------------------------------------------------------------
 * The index
 * ------------------------------------------------------------------------
 */

/*
 * A bijection of 64 bits of the digest, mixed with the codec: the same block under two codecs is
 * two blocks.
 */
static uint64
key_of(const AtpBlockStore *s, AtpBytes cid)
{
	uint64		prefix;

	memcpy(&prefix, cid.ptr + ATP_CID_BLESSED_LEN - 32, sizeof(prefix));
	return ((prefix ^ cid.ptr[1]) + s->add) * s->factor;
}

static const StorePart *
part_of(const AtpBlockStore *s, uint64 key)
{
	return &s->parts[key >> 56];
}

static uint32
slot_of(const StorePart *part, uint64 key)
{
	return (uint32) (((key >> 24 & UINT64CONST(0xffffffff)) * part->room) >> 32);
}

static inline uint32
next_slot(const StorePart *part, uint32 slot)
{
	return slot + 1 < part->room ? slot + 1 : 0;
}

/*
 * A search.  All entries of a key lie at its slot or behind, possibly between entries of different
 * keys.
 */
typedef struct StoreProbe
{
	const StorePart *part;		/* NULL: the part is empty */
	uint64		key;
	uint32		slot;
} StoreProbe;

static StoreProbe
probe_for(const AtpBlockStore *s, AtpBytes cid)
{
	StoreProbe	probe = {NULL};

	if (atp_cid_is_blessed(cid.ptr, cid.len))
	{
		uint64		key = key_of(s, cid);
		const StorePart *part = part_of(s, key);

		if (part->n > 0)
			probe = (StoreProbe) {part, key, slot_of(part, key)};
	}
	return probe;
}

/* The next entry with this key (very probably the only entry); NULL: no more. */
static const BlockEntry *
next_entry(StoreProbe *probe)
{
	const StorePart *part = probe->part;

	while (part != NULL && part->entries[probe->slot].place != 0)
	{
		const BlockEntry *entry = &part->entries[probe->slot];

		probe->slot = next_slot(part, probe->slot);
		if (entry->key == probe->key)
			return entry;
	}
	return NULL;
}

static void
put_entry(StorePart *part, BlockEntry entry)
{
	uint32		slot = slot_of(part, entry.key);

	while (part->entries[slot].place != 0)
		slot = next_slot(part, slot);
	part->entries[slot] = entry;
}

static void
grow_part(AtpBlockStore *s, StorePart *part)
{
	StorePart	grown = {.room = Max(part->room + part->room / 2, PART_MIN), .n = part->n};

	grown.entries = MemoryContextAllocExtended(s->cxt, grown.room * sizeof(BlockEntry), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint32 i = 0; i < part->room; i++)
		if (part->entries[i].place != 0)
			put_entry(&grown, part->entries[i]);
	if (part->entries != NULL)
		pfree(part->entries);
	s->index_bytes += (grown.room - part->room) * sizeof(BlockEntry);
	*part = grown;
}

/* ------------------------------------------------------------------------
 * Bytes
 * ------------------------------------------------------------------------
 */

/*
 * Plain file writes, not BufFile: closing a BufFile writes the rest of its buffer, which would fail
 * a second time if the disk was full.
 */
static void
write_out(AtpBlockStore *s)
{
	const uint8_t *bytes = s->unwritten;

	while (s->written < s->used)
	{
		int			n = (int) (s->used - s->written);
		int			done = atp_file_write(s->file, bytes, n, (off_t) (s->written - s->kept_used), WAIT_EVENT_BUFFILE_WRITE);

		if (done <= 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not write to a temporary file: %m")));
		bytes += done;
		s->written += done;
	}
}

static void
append_bytes(AtpBlockStore *s, AtpBytes bytes)
{
	if (!s->has_file)
	{
		memcpy(s->kept + s->used, bytes.ptr, bytes.len);
		s->kept_used = s->used += bytes.len;
		return;
	}
	while (bytes.len > 0)
	{
		Size		n = Min(bytes.len, WRITE_BYTES - (Size) (s->used - s->written));

		memcpy(s->unwritten + (s->used - s->written), bytes.ptr, n);
		s->used += n;
		bytes = (AtpBytes) {bytes.ptr + n, bytes.len - n};
		if (s->used - s->written == WRITE_BYTES)
			write_out(s);
	}
}

/* Make room for n more bytes, in memory, or else by creating the file. */
static void
make_room(AtpBlockStore *s, Size n)
{
	if (s->has_file)
		return;
	if (s->used + n <= s->memory)
	{
		Size		room = Max(s->kept_room, KEPT_MIN);

		while (room < s->used + n)
			room *= 2;
		room = Min(room, s->memory);
		if (room > s->kept_room)
		{
			s->kept = s->kept == NULL ? MemoryContextAllocHuge(s->cxt, room) : repalloc_huge(s->kept, room);
			s->kept_room = room;
		}
	}
	else
	{
		s->unwritten = MemoryContextAlloc(s->cxt, WRITE_BYTES);
		/* temp_tablespaces holds until the transaction ends, so a file that outlives the transaction is in the default tablespace */
		if (!s->across)
			PrepareTempTablespaces();
		s->file = OpenTemporaryFile(s->across);
		s->has_file = true;
		s->written = s->used;
	}
}

/* Returns n bytes from this position on, in memory or read into the buffer. */
static const uint8_t *
bytes_at(AtpBlockStore *s, uint64 place, Size n, AtpBlockBuffer *buffer)
{
	if (place < s->kept_used)
		return s->kept + place;
	if (place >= s->written)
		return s->unwritten + (place - s->written);
	if (place + n > s->written)
		write_out(s);
	if (buffer->room < n)
	{
		if (buffer->bytes != NULL)
			pfree(buffer->bytes);
		*buffer = (AtpBlockBuffer) {.bytes = NULL};
		buffer->bytes = MemoryContextAlloc(s->cxt, n);
		buffer->room = n;
	}
	for (Size done = 0; done < n;)
	{
		int			got = FileRead(s->file, (void *) (buffer->bytes + done), n - done, (off_t) (place + done - s->kept_used), WAIT_EVENT_BUFFILE_READ);

		if (got <= 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 got < 0 ? errmsg("could not read from a temporary file: %m")
					 : errmsg("could not read from a temporary file: it is too short")));
		done += got;
	}
	return buffer->bytes;
}

/* Find a block; the buffer gets the whole entry or only its CID.  NULL: no such block. */
static const uint8_t *
find_block(AtpBlockStore *s, AtpBytes cid, bool whole, AtpBlockBuffer *buffer, Size *length)
{
	StoreProbe	probe = probe_for(s, cid);
	const BlockEntry *entry;

	while ((entry = next_entry(&probe)) != NULL)
	{
		const uint8_t *bytes;

		*length = entry->place & LENGTH_MAX;
		bytes = bytes_at(s, entry->place >> LENGTH_BITS, whole ? *length : ATP_CID_BLESSED_LEN, buffer);
		if (memcmp(bytes, cid.ptr, ATP_CID_BLESSED_LEN) == 0)
			return bytes;
	}
	return NULL;
}

void
atp_blocks_add(AtpBlockStore *s, AtpBytes cid, AtpBytes block)
{
	uint64		key = key_of(s, cid);
	StorePart  *part = unconstify(StorePart *, part_of(s, key));
	Size		length = cid.len + block.len;
	BlockEntry	entry = {key, s->used << LENGTH_BITS | length};

	Assert(atp_cid_is_blessed(cid.ptr, cid.len) && length <= LENGTH_MAX);
	if (find_block(s, cid, false, &s->cid, &length) != NULL)
		return;
	if ((uint64) part->n * 8 >= (uint64) part->room * 7)
		grow_part(s, part);
	make_room(s, cid.len + block.len);
	append_bytes(s, cid);
	append_bytes(s, block);
	put_entry(part, entry);
	part->n++;
	s->n++;
}

bool
atp_blocks_has(const AtpBlockStore *s, AtpBytes cid)
{
	StoreProbe	probe = probe_for(s, cid);

	return next_entry(&probe) != NULL;
}

bool
atp_blocks_read(AtpBlockStore *s, AtpBytes cid, AtpBlockBuffer *buffer, AtpBytes *block)
{
	Size		length;
	const uint8_t *bytes = find_block(s, cid, true, buffer, &length);

	if (bytes == NULL)
		return false;
	*block = (AtpBytes) {bytes + ATP_CID_BLESSED_LEN, length - ATP_CID_BLESSED_LEN};
	return true;
}
