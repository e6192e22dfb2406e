/*
 * label_judge.h
 *		At level full: which labels their labelers have signed, and which wait (V-49).
 *
 * Each labeler's part of a message (AtpEvent.parts) is judged as one: where one of its labels waits,
 * all of them do.  What is true of it is taken but for the labels that nobody has
 * signed (AtpLabelRow.refuted).
 */
#ifndef ATP_LABEL_JUDGE_H
#define ATP_LABEL_JUDGE_H

#include "tables/base/sink.h"

/* The verdicts on the parts of events [lo, hi), and on their rows. */
extern void atp_labels_judge(AtpApply *a, int lo, int hi);

/* By it, or below level full: is the row to be written? */
extern bool atp_label_is_taken(const AtpLabelRow *row);

/* What was found is counted. */
extern void atp_labels_count(AtpApply *a, int lo, int hi);

/* For the sink, about events [a->lo, a->hi). */
extern void atp_labels_condemn(AtpApply *a);
extern void atp_labels_conclude(AtpApply *a);

#endif							/* ATP_LABEL_JUDGE_H */
