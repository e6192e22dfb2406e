/*
 * tree_layers.h
 *		The nodes of a tree, kept by layers, until a file is written (O-01).
 *
 * A builder completes the nodes of a layer from left to right, and a walk from the root enters them in the same order.  So
 * each layer is a queue: no index of nodes, and no search.  A few megabytes are in memory, the rest in temporary files.
 */
#ifndef ATP_TREE_LAYERS_H
#define ATP_TREE_LAYERS_H

#include "postgres.h"

#include "core/atp.h"

typedef struct AtpTreeLayers AtpTreeLayers;

/* In the current memory context, which must live until atp_layers_free(). */
extern AtpTreeLayers *atp_layers_make(void);
extern void atp_layers_free(AtpTreeLayers *layers);

extern uint64 atp_layers_count(const AtpTreeLayers *layers);

extern void atp_layers_add(AtpTreeLayers *layers, unsigned layer, const uint8_t *node, Size n);

/* After the last atp_layers_add(). */
extern void atp_layers_rewind(AtpTreeLayers *layers);

/* The next node of the layer, valid until the next call for this layer.  False: no more. */
extern bool atp_layers_read(AtpTreeLayers *layers, unsigned layer, AtpBytes *node);

#endif							/* ATP_TREE_LAYERS_H */
