/*
 * labels_message.h
 *		The messages of com.atproto.label.subscribeLabels (rules F-30 to F-33).
 */
#ifndef ATP_LABELS_MESSAGE_H
#define ATP_LABELS_MESSAGE_H

#include "core/atp.h"
#include "core/codec/dagcbor.h"
#include "core/wire/frame.h"

#define ATP_LABEL_VAL_MAX	128	/* bytes, F-31 */

typedef enum AtpLabelsKind
{
	ATP_LABELS_UNKNOWN,			/* unknown t: ignored (E-22) */
	ATP_LABELS_LABELS,
	ATP_LABELS_INFO
} AtpLabelsKind;

typedef struct AtpLabelsMessage
{
	AtpLabelsKind kind;
	int64_t		seq;			/* 0 for #info, and unknown messages without */
	AtpSpan		name;			/* #info */
	uint64_t	nlabels;
	/* where the labels lie; atp_labels_next() reads them */
	AtpCborReader reader;
	size_t		base;			/* offset of the payload in the message */
} AtpLabelsMessage;

/* One label: spans of the message; absent parts have ptr NULL. */
typedef struct AtpLabel
{
	bool		has_ver;
	int64_t		ver;
	AtpSpan		src;			/* DID */
	AtpSpan		uri;			/* AT URI, or DID */
	uint8_t		cid[100];		/* binary (ATP_CID_MAX) */
	size_t		cid_len;		/* 0: absent */
	AtpSpan		val;
	bool		neg;
	int64_t		cts;			/* microseconds since the Unix epoch */
	bool		has_exp;
	int64_t		exp;
	AtpBytes	sig;
	AtpBytes	map;			/* all of it, as it is in the message */
} AtpLabel;

/* As atp_repos_parse(): ATP_E_SEQ_* is fatal, other errors reject the message. */
extern AtpErr atp_labels_parse(const AtpFrame *frame, AtpLabelsMessage *msg, size_t *at);

/*
 * The next of the msg->nlabels labels.  An error that is about this label alone
 * (ATP_E_LABEL_*, wrong types) leaves the reader at the next one.
 */
extern AtpErr atp_labels_next(AtpLabelsMessage *msg, AtpLabel *label, size_t *at);

#endif							/* ATP_LABELS_MESSAGE_H */
