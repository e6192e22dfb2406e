/*
 * apply_labels.h
 *		Events into tables: labels.  See AtpFamily in family.h.
 */
#ifndef ATP_APPLY_LABELS_H
#define ATP_APPLY_LABELS_H

#include "stream/family.h"

extern void atp_apply_labels(Apply *a, int lo, int hi);
extern void atp_apply_labels_row(Apply *a, int row, int event);

#endif							/* ATP_APPLY_LABELS_H */
