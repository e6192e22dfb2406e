/*
 * player.c
 *		The order of messages and faults on one connection.
 */
#include "player.h"

void
player_start(Player *p, const Options *o, Filter filter, int64_t after, int64_t connection)
{
	*p = (Player) {
		.options = o,
		.filter = filter,
		.faults = o->fault_times == NEVER || connection <= o->fault_times,
		.cut = o->cut_times == NEVER || connection <= o->cut_times,
		.pos = capture_find(&o->capture, after + 1)
	};
	/* Faults of the part that is not replayed do not happen. */
	for (unsigned i = 0; i < o->nfaults; i++)
		if (o->fault[i].at > 0 && o->fault[i].at <= after)
			p->fired |= UINT64_C(1) << i;
}

/* Is this message left out? */
static bool
left_out(const Player *p, const Message *m)
{
	const Options *o = p->options;

	if (p->faults && o->skip_from != NEVER && m->seq >= o->skip_from && m->seq <= o->skip_to)
		return true;
	return o->capture.wire != WIRE_CBOR && !filter_passes(&p->filter, m);
}

/* The seq of the message that comes next, holes skipped. */
static int64_t
next_seq(Player *p)
{
	const Capture *c = &p->options->capture;

	while (p->pos < c->n && left_out(p, &c->msgs[p->pos]))
		p->pos++;
	return p->pos < c->n ? c->msgs[p->pos].seq : INT64_MAX;
}

static bool
reorders(const Fault *f)
{
	return f->kind == FAULT_DUP || f->kind == FAULT_SWAP;
}

/* The next fault due before message seq; faults that reorder messages come after faults that send or end something. */
static const Fault *
due_fault(Player *p, int64_t seq)
{
	const Options *o = p->options;
	unsigned	due = FAULTS_MAX;

	if (!p->faults)
		return NULL;
	for (unsigned i = 0; i < o->nfaults; i++)
		if (o->fault[i].at <= seq && !(p->fired >> i & 1) &&
			(due == FAULTS_MAX || (reorders(&o->fault[due]) && !reorders(&o->fault[i]))))
			due = i;
	if (due == FAULTS_MAX)
		return NULL;
	p->fired |= UINT64_C(1) << due;
	return &o->fault[due];
}

/* Faults that come after a number of messages. */
static bool
counted_fault(const Player *p, Step *step)
{
	const Options *o = p->options;

	if (p->cut && o->cut_after != NEVER && p->sent >= o->cut_after)
		step->kind = STEP_CUT;
	else if (p->faults && o->close_after != NEVER && p->sent >= o->close_after)
	{
		step->kind = STEP_CLOSE;
		step->code = o->close_code ? o->close_code : 1000;
	}
	else if (p->faults && o->stall_after != NEVER && p->sent >= o->stall_after)
		step->kind = STEP_IDLE;
	else
		return false;
	if (step->kind == STEP_CUT && p->pos < o->capture.n)
	{
		step->data = o->capture.msgs[p->pos].data;
		step->len = o->capture.msgs[p->pos].len;
	}
	return true;
}

static Step
send_captured(Player *p, size_t i)
{
	const Message *m = &p->options->capture.msgs[i];

	if (p->first_seq == 0)
		p->first_seq = m->seq;
	p->last_seq = m->seq;
	p->sent++;
	return (Step) {STEP_MESSAGE, m->data, m->len, 0};
}

/* A fault that sends something becomes a step; one that reorders, a queue. */
static bool
apply_fault(Player *p, const Fault *f, Step *step)
{
	size_t		n = p->options->capture.n;

	*step = (Step) {STEP_IDLE, buffer_bytes(&f->bytes), buffer_len(&f->bytes), 0};
	switch (f->kind)
	{
		case FAULT_ERROR:
			p->closing = true;
			/* FALLTHROUGH */
		case FAULT_MESSAGES:
			p->extra = &f->messages;
			p->extra_pos = 0;
			return false;
		case FAULT_TEXT:
			step->kind = STEP_TEXT;
			return true;
		case FAULT_BINARY:
			step->kind = STEP_BINARY;
			return true;
		case FAULT_RAW:
			step->kind = STEP_RAW;
			return true;
		case FAULT_PING:
			step->kind = STEP_PING;
			return true;
		case FAULT_DUP:
			if (p->pos < n)
			{
				p->queue[0] = p->pos;
				p->nqueue = 1;
			}
			return false;
		case FAULT_SWAP:
			if (p->pos + 1 < n)
			{
				p->queue[1] = p->pos + 1;	/* taken from the end */
				p->queue[0] = p->pos;
				p->nqueue = 2;
				p->pos += 2;
			}
			return false;
	}
	return false;
}

Step
player_next(Player *p, int64_t held)
{
	const Options *o = p->options;

	for (;;)
	{
		Step		step = {STEP_IDLE, NULL, 0, 0};
		const Fault *fault;
		int64_t		seq;

		if (counted_fault(p, &step))
			return step;
		if (p->extra && p->extra_pos < p->extra->n)
		{
			const Message *m = &p->extra->msgs[p->extra_pos++];

			p->sent++;
			return (Step) {STEP_MESSAGE, m->data, m->len, 0};
		}
		if (p->closing)
			return (Step) {STEP_CLOSE, NULL, 0, 1008};
		while (p->nqueue > 0)
			if (!left_out(p, &o->capture.msgs[p->queue[--p->nqueue]]))
				return send_captured(p, p->queue[p->nqueue]);
		seq = next_seq(p);
		if (seq >= held && seq != INT64_MAX)
			return step;
		if ((fault = due_fault(p, seq)) != NULL)
		{
			if (apply_fault(p, fault, &step))
				return step;
			continue;
		}
		if (p->pos < o->capture.n)
			return send_captured(p, p->pos++);
		if (p->faults && o->close_code != 0)
			return (Step) {STEP_CLOSE, NULL, 0, o->close_code};
		if (o->close_at_end)
			return (Step) {STEP_CLOSE, NULL, 0, 1000};
		return step;
	}
}
