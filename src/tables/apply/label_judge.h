/*
 * label_judge.h
 *		At level full: verdicts on labels by their labelers' signatures (V-49).
 *
 * Each labeler's part of a message (AtpEvent.parts) gets a single verdict: the labels of a part wait together.
 * When a part is not held or ignored, its signed labels are written, and a label without a valid signature
 * (AtpLabelRow.refuted) becomes a dead letter.
 */
#ifndef ATP_LABEL_JUDGE_H
#define ATP_LABEL_JUDGE_H

#include "tables/base/sink.h"

/* Set the verdicts on the parts of events [lo, hi), and refuted of their rows. */
extern void atp_labels_judge(AtpApply *a, int lo, int hi);

/* Is the row to be written?  Below level full: always. */
extern bool atp_label_is_taken(const AtpLabelRow *row);

/* Count the verdicts on events [lo, hi) in a->skips. */
extern void atp_labels_count(AtpApply *a, int lo, int hi);

/* The callbacks reject_unsigned and after_apply of the sink (sink.h), for events [a->lo, a->hi). */
extern void atp_labels_reject_unsigned(AtpApply *a);
extern void atp_labels_after_apply(AtpApply *a);

#endif							/* ATP_LABEL_JUDGE_H */
