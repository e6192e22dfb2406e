/*
 * segment_name.h
 *		Names of segments: "seg_", the segment's index in base 36 with ten digits, ".jss".
 */
#ifndef ATP_SEGMENT_NAME_H
#define ATP_SEGMENT_NAME_H

#include "core/atp.h"

#define ATP_SEGMENT_NAME_LEN	18
#define ATP_SEGMENT_INDEX_LIMIT	UINT64_C(3656158440062976)	/* 36^10, exclusive */

/*
 * H-20: the name in a request is formatted from the index, never copied from a server's answer.
 * ATP_E_SEGMENT_NAME is the only error.
 */
extern AtpErr atp_segment_name_parse(AtpSpan name, uint64_t *index);

/* index < ATP_SEGMENT_INDEX_LIMIT; out gets no NUL at its end. */
extern void atp_segment_name_format(uint64_t index, char out[ATP_SEGMENT_NAME_LEN]);

#endif							/* ATP_SEGMENT_NAME_H */
