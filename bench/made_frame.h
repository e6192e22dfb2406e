/*
 * made_frame.h
 *		Frames of subscribeRepos, for measurements: a #commit that creates one record.
 */
#ifndef MADE_FRAME_H
#define MADE_FRAME_H

#include <stdio.h>

#include "core/codec/cbor_write.h"
#include "core/repo/mst.h"

typedef struct MadeFrame
{
	const char *did;
	AtpMstLeaf	leaf;			/* path and CID of the record */
	uint64_t	seq;
	const char *rev;			/* ATP_TID_TEXT bytes */
	const char *since;			/* the same, or NULL for null */
	AtpBytes	commit;			/* CIDs */
	AtpBytes	prev_data;
	AtpBytes	car;			/* the blocks */
} MadeFrame;

extern void made_frame_put(AtpCborWriter *w, const MadeFrame *frame);

/* As a capture has it: [u32 big-endian length][message]. */
extern bool made_frame_write(const AtpCborWriter *frame, FILE *f);

#endif							/* MADE_FRAME_H */
