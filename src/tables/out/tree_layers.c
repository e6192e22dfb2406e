/*
 * tree_layers.c
 *		The nodes of a tree, kept by layers, in memory or in temporary files: see tree_layers.h.
 */
#include "postgres.h"

#include "commands/tablespace.h"
#include "core/repo/mst_root.h"
#include "storage/buffile.h"
#include "tables/out/tree_layers.h"
#include "utils/memutils.h"

/* Bytes of nodes in memory, of all layers.  The layer that grows beyond goes into a file. */
#define KEPT_MAX	(4 * 1024 * 1024)

/* Nodes, each behind its length. */
typedef struct Layer
{
	uint8_t    *bytes;			/* of the nodes in memory, or a buffer for the node read from the file last */
	Size		room;
	Size		len;
	Size		at;				/* of the next node to read */
	BufFile    *file;			/* NULL: in memory */
	uint64		left;			/* nodes still to read */
	uint64		nodes;
} Layer;

struct AtpTreeLayers
{
	MemoryContext cxt;
	Size		kept;			/* bytes in memory */
	uint64		nodes;
	Layer		layers[ATP_MST_LEVELS_MAX];
};

AtpTreeLayers *
atp_layers_make(void)
{
	AtpTreeLayers *layers = palloc0(sizeof(AtpTreeLayers));

	layers->cxt = CurrentMemoryContext;
	return layers;
}

void
atp_layers_free(AtpTreeLayers *layers)
{
	for (int i = 0; i < ATP_MST_LEVELS_MAX; i++)
	{
		if (layers->layers[i].file != NULL)
			BufFileClose(layers->layers[i].file);
		if (layers->layers[i].bytes != NULL)
			pfree(layers->layers[i].bytes);
	}
	pfree(layers);
}

uint64
atp_layers_count(const AtpTreeLayers *layers)
{
	return layers->nodes;
}

static void
need_room(AtpTreeLayers *layers, Layer *layer, Size room)
{
	if (layer->room >= room)
		return;
	room = Max(room, 2 * layer->room);
	layer->bytes = layer->bytes == NULL ? MemoryContextAlloc(layers->cxt, room) : repalloc(layer->bytes, room);
	layer->room = room;
}

static void
move_to_file(AtpTreeLayers *layers, Layer *layer)
{
	MemoryContext old = MemoryContextSwitchTo(layers->cxt);

	PrepareTempTablespaces();
	layer->file = BufFileCreateTemp(false);
	MemoryContextSwitchTo(old);
	if (layer->len > 0)
		BufFileWrite(layer->file, layer->bytes, layer->len);
	layers->kept -= layer->len;
	if (layer->bytes != NULL)
		pfree(layer->bytes);
	layer->bytes = NULL;
	layer->room = layer->len = 0;
}

void
atp_layers_add(AtpTreeLayers *layers, unsigned number, const uint8_t *node, Size n)
{
	Layer	   *layer = &layers->layers[number];
	uint32		length = n;

	layer->nodes++;
	layers->nodes++;
	if (layer->file == NULL && layers->kept + sizeof(length) + n > KEPT_MAX)
		move_to_file(layers, layer);
	if (layer->file != NULL)
	{
		BufFileWrite(layer->file, &length, sizeof(length));
		BufFileWrite(layer->file, unconstify(uint8_t *, node), n);
		return;
	}
	need_room(layers, layer, layer->len + sizeof(length) + n);
	memcpy(layer->bytes + layer->len, &length, sizeof(length));
	memcpy(layer->bytes + layer->len + sizeof(length), node, n);
	layer->len += sizeof(length) + n;
	layers->kept += sizeof(length) + n;
}

void
atp_layers_rewind(AtpTreeLayers *layers)
{
	for (int i = 0; i < ATP_MST_LEVELS_MAX; i++)
	{
		Layer	   *layer = &layers->layers[i];

		layer->at = 0;
		layer->left = layer->nodes;
		if (layer->file != NULL && BufFileSeek(layer->file, 0, 0, SEEK_SET) != 0)
			ereport(ERROR,
					(errcode_for_file_access(),
					 errmsg("could not rewind a temporary file")));
	}
}

static void
read_file(BufFile *file, void *bytes, Size n)
{
	if (BufFileRead(file, bytes, n) != n)
		ereport(ERROR,
				(errcode_for_file_access(),
				 errmsg("could not read a temporary file")));
}

bool
atp_layers_read(AtpTreeLayers *layers, unsigned number, AtpBytes *node)
{
	Layer	   *layer = &layers->layers[number];
	uint32		length;

	if (layer->left == 0)
		return false;
	layer->left--;
	if (layer->file == NULL)
	{
		memcpy(&length, layer->bytes + layer->at, sizeof(length));
		*node = (AtpBytes) {layer->bytes + layer->at + sizeof(length), length};
		layer->at += sizeof(length) + length;
		return true;
	}
	read_file(layer->file, &length, sizeof(length));
	need_room(layers, layer, length);
	read_file(layer->file, layer->bytes, length);
	*node = (AtpBytes) {layer->bytes, length};
	return true;
}
