/*
 * block_store.c
 *		Blocks by their CIDs: the first ones in memory, the others in a temporary
 *		file.
 *
 * A block lies behind its CID.  The index has 16 bytes for each: 64 bits of the
 * digest, where it lies and how long it is.  Two digests can be made to agree in
 * 64 bits on purpose, so the CID is compared when a block is read.  There is no
 * mapped file: where the disk fails, a process that reads one gets a signal, and
 * the server restarts.
 */
#include "postgres.h"

#include "compat.h"
#include "core/cid.h"
#include "tables/block_store.h"
#include "storage/buffile.h"
#include "utils/memutils.h"

/*
 * The index is in parts, each of which grows by itself: so what is copied then is
 * small, in time and in memory.
 */
#define PARTS		256
#define PART_MIN	8

#define KEPT_MIN	(64 * 1024)

/* Of an entry's place: the lower bits are the length. */
#define LENGTH_BITS	21
#define LENGTH_MAX	((UINT64CONST(1) << LENGTH_BITS) - 1)

typedef struct Entry
{
	uint64		key;
	uint64		place;			/* 0: no entry */
} Entry;

typedef struct Part
{
	Entry	   *entries;		/* open addressing */
	uint32		room;
	uint32		n;
} Part;

struct AtpBlockStore
{
	MemoryContext cxt;
	bool		across;
	Size		memory;			/* bytes that may be kept */
	uint8_t    *kept;
	Size		kept_room;
	uint64		used;			/* bytes of all blocks with their CIDs; those from kept_used on are in the file */
	Size		kept_used;
	BufFile    *file;			/* NULL: none yet */
	AtpBlockBuffer cid;			/* for comparing */
	uint64		n;
	Size		index_bytes;
	uint64		add;			/* random: a sender must not know which entries its blocks get */
	uint64		factor;
	Part		parts[PARTS];
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
	if (s->file != NULL)
		BufFileClose(s->file);
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
	return s->kept_room + s->index_bytes + s->cid.room + (s->file != NULL ? BLCKSZ : 0);
}

/* ------------------------------------------------------------------------
 * The index
 * ------------------------------------------------------------------------
 */

/* One number for each prefix of a digest, and codec: the same block under two of them is two blocks. */
static uint64
key_of(const AtpBlockStore *s, AtpBytes cid)
{
	uint64		prefix;

	memcpy(&prefix, cid.ptr + ATP_CID_BLESSED_LEN - 32, sizeof(prefix));
	return ((prefix ^ cid.ptr[1]) + s->add) * s->factor;
}

static const Part *
part_of(const AtpBlockStore *s, uint64 key)
{
	return &s->parts[key >> 56];
}

static uint32
slot_of(const Part *part, uint64 key)
{
	return (uint32) (((key >> 24 & UINT64CONST(0xffffffff)) * part->room) >> 32);
}

static inline uint32
next_slot(const Part *part, uint32 slot)
{
	return slot + 1 < part->room ? slot + 1 : 0;
}

static void
put_entry(Part *part, Entry entry)
{
	uint32		slot = slot_of(part, entry.key);

	while (part->entries[slot].place != 0)
		slot = next_slot(part, slot);
	part->entries[slot] = entry;
}

static void
grow(AtpBlockStore *s, Part *part)
{
	Part		grown = {.room = Max(part->room + part->room / 2, PART_MIN), .n = part->n};

	grown.entries = MemoryContextAllocExtended(s->cxt, grown.room * sizeof(Entry), MCXT_ALLOC_HUGE | MCXT_ALLOC_ZERO);
	for (uint32 i = 0; i < part->room; i++)
		if (part->entries[i].place != 0)
			put_entry(&grown, part->entries[i]);
	if (part->entries != NULL)
		pfree(part->entries);
	s->index_bytes += (grown.room - part->room) * sizeof(Entry);
	*part = grown;
}

/* ------------------------------------------------------------------------
 * Bytes
 * ------------------------------------------------------------------------
 */
static void
seek(AtpBlockStore *s, uint64 place)
{
	/* BufFile finds the segment itself */
	if (BufFileSeek(s->file, 0, (off_t) (place - s->kept_used), SEEK_SET) != 0)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not seek in a temporary file: %m")));
}

static void
append(AtpBlockStore *s, AtpBytes bytes)
{
	if (s->file == NULL)
	{
		memcpy(s->kept + s->used, bytes.ptr, bytes.len);
		s->kept_used = s->used += bytes.len;
		return;
	}
	atp_buffile_write(s->file, bytes.ptr, bytes.len);
	s->used += bytes.len;
}

/* There is memory for so many bytes more, or a file whose end is where it is written. */
static void
make_room(AtpBlockStore *s, Size n)
{
	if (s->file != NULL)
	{
		seek(s, s->used);
		return;
	}
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
		MemoryContext old = MemoryContextSwitchTo(s->cxt);

		s->file = BufFileCreateTemp(s->across);
		MemoryContextSwitchTo(old);
	}
}

/* So many bytes from there, where they are in memory or in the buffer. */
static const uint8_t *
bytes_at(AtpBlockStore *s, uint64 place, Size n, AtpBlockBuffer *buffer)
{
	if (place < s->kept_used)
		return s->kept + place;
	if (buffer->room < n)
	{
		if (buffer->bytes != NULL)
			pfree(buffer->bytes);
		*buffer = (AtpBlockBuffer) {.bytes = NULL};
		buffer->bytes = MemoryContextAlloc(s->cxt, n);
		buffer->room = n;
	}
	seek(s, place);
	if (BufFileRead(s->file, buffer->bytes, n) != n)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read from a temporary file")));
	return buffer->bytes;
}

/* With so many bytes of it in the buffer; NULL: no such block. */
static const uint8_t *
find(AtpBlockStore *s, AtpBytes cid, bool whole, AtpBlockBuffer *buffer, Size *length)
{
	uint64		key;
	const Part *part;

	if (!atp_cid_is_blessed(cid.ptr, cid.len))
		return NULL;
	key = key_of(s, cid);
	part = part_of(s, key);
	if (part->n == 0)
		return NULL;
	for (uint32 slot = slot_of(part, key); part->entries[slot].place != 0; slot = next_slot(part, slot))
	{
		const Entry *entry = &part->entries[slot];
		const uint8_t *bytes;

		if (entry->key != key)
			continue;
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
	Part	   *part = unconstify(Part *, part_of(s, key));
	Size		length = cid.len + block.len;
	Entry		entry = {key, s->used << LENGTH_BITS | length};

	Assert(atp_cid_is_blessed(cid.ptr, cid.len) && length <= LENGTH_MAX);
	if (find(s, cid, false, &s->cid, &length) != NULL)
		return;
	if ((uint64) part->n * 8 >= (uint64) part->room * 7)
		grow(s, part);
	make_room(s, cid.len + block.len);
	append(s, cid);
	append(s, block);
	put_entry(part, entry);
	part->n++;
	s->n++;
}

bool
atp_blocks_has(const AtpBlockStore *s, AtpBytes cid)
{
	uint64		key;
	const Part *part;

	if (!atp_cid_is_blessed(cid.ptr, cid.len))
		return false;
	key = key_of(s, cid);
	part = part_of(s, key);
	if (part->n == 0)
		return false;
	for (uint32 slot = slot_of(part, key); part->entries[slot].place != 0; slot = next_slot(part, slot))
		if (part->entries[slot].key == key)
			return true;
	return false;
}

bool
atp_blocks_read(AtpBlockStore *s, AtpBytes cid, AtpBlockBuffer *buffer, AtpBytes *block)
{
	Size		length;
	const uint8_t *bytes = find(s, cid, true, buffer, &length);

	if (bytes == NULL)
		return false;
	*block = (AtpBytes) {bytes + ATP_CID_BLESSED_LEN, length - ATP_CID_BLESSED_LEN};
	return true;
}
