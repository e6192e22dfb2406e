/*
 * label.h
 *		Events into tables: labels.  See AtpFamily in stream/family.h.
 */
#ifndef ATP_TABLES_LABEL_H
#define ATP_TABLES_LABEL_H

#include "stream/family.h"

extern void atp_apply_labels(Apply *a, int lo, int hi);
extern void atp_apply_labels_row(Apply *a, int row, int event);

#endif							/* ATP_TABLES_LABEL_H */
