/*
 * labels_message.h
 *		Parser of the messages of com.atproto.label.subscribeLabels (rules F-30
 *		to F-33).  A label's signature is not verified here: see sig.h.
 */
#ifndef ATP_LABELS_MESSAGE_H
#define ATP_LABELS_MESSAGE_H

#include "core/atp.h"
#include "core/codec/dagcbor.h"
#include "core/wire/frame.h"

#define ATP_NSID_LABELS		"com.atproto.label.subscribeLabels"
#define ATP_LABEL_VAL_MAX	128 /* bytes, F-31 */

typedef enum AtpLabelsKind
{
	ATP_LABELS_UNKNOWN,			/* unknown t: ignored (E-22) */
	ATP_LABELS_LABELS,			/* F-30 */
	ATP_LABELS_INFO
} AtpLabelsKind;

typedef struct AtpLabelsMessage
{
	AtpLabelsKind kind;
	int64_t		seq;			/* 0 for #info, and for unknown messages without a seq */
	AtpSpan		name;			/* #info */
	uint64_t	nlabels;
	/* at the labels, for atp_labels_next() */
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
	AtpBytes	map;			/* the whole label, as sent */
} AtpLabel;

/*
 * ATP_E_SEQ_* is fatal to the connection; any other error rejects only this
 * message (as with atp_repos_parse()).
 */
extern AtpErr atp_labels_parse(const AtpFrame *frame, AtpLabelsMessage *msg, size_t *at);

/*
 * The next of the msg->nlabels labels.  After an error that concerns only this
 * label (ATP_E_LABEL_*, wrong types), the reader is at the next label.
 */
extern AtpErr atp_labels_next(AtpLabelsMessage *msg, AtpLabel *label, size_t *at);

#endif							/* ATP_LABELS_MESSAGE_H */
