/*
 * Names: a subscription, its name, its target and its filter change while a consumer works.
 *
 * Rows name a subscription by its name and a target by the name of its schema.  Both names change in one transaction of a
 * session; each process of the extension has read the row of atproto.subscription before, and learns of the change
 * late, or never in the transaction that it is about to commit.
 *
 * Modelled: one subscription; two names, so two processes may believe that they serve it, each with the claim on its name; two
 * sets of tables and three names of schemas; the cursor, held events, jobs; the locks on the row of the subscription (FOR
 * KEY SHARE, FOR NO KEY UPDATE, FOR UPDATE), on the cursor's row and on the rows of repositories.  Sessions change
 * the filter, the name, the target, the name of the target's schema; they remove the subscription and make another one
 * under its name.  A batch has one event: a row, a break (a mark and a job), or an event that is held.  A neighbour is a batch of another
 * subscription that requests a job of this one; the fetcher is a process that has read the subscription in an earlier transaction.
 * Left out: the contents of tables, and what several events of a batch add (a batch is committed as a whole); the
 * cursor of another endpoint (after a change of the url a batch of the former stream moves no cursor); foreign
 * keys, which take the new name along, are one step with the change of the name; dead letters, which are locked as jobs are.
 *
 * Claims, in words:
 *  - an event that the cursor has passed is stored once, or held, or in a gap;
 *  - an event is stored in the tables that are the target when the batch commits;
 *  - the settings noted in the cursor are those of the process that moves the cursor;
 *  - a job or a held event names the present target of its subscription;
 *  - a mark of a break in the present target has a job;
 *  - nobody waits for ever, and no subscription is stopped for a name that is past.
 *
 * short: -DEVENTS=1 -DCHANGES=2 -DSESSIONS=1 -DTABLES=2
 * long: -DEVENTS=1 -DCHANGES=3 -DSESSIONS=1 -DTABLES=2
 *
 * step read: process/consumer/consumer_settings.c atp_consumer_read_settings()
 * step note: config/cursor.c atp_cursor_settings()
 * step batch: tables/apply/apply.c apply_once()
 * step lock: tables/apply/stream_progress.c lock_progress()
 * step move: tables/apply/stream_progress.c move_progress()
 * step stop: config/subscription.c atp_subscription_stop()
 * step release: tables/apply/release_progress.c lock_held()
 * step target: tables/repos/held_leave.c atp_subscription_held()
 * step jobs: tables/commands/job_reassign.c atp_subscription_jobs()
 * step schema: config/target_rename.c rename_target()
 * step unsubscribe: process/manager/control.c atp_unsubscribe()
 * step neighbour: tables/base/job.c atp_jobs_repair()
 * step request: tables/base/job.c atp_jobs_request()
 * step wait: tables/base/job.c atp_jobs_await()
 *
 * mark noted: seq, target, filter: the consumer changes the cursor's settings
 * mark moved: seq, target, kind: a batch moves the cursor; a break inserts a job, a held event a row of held_event
 * mark released: target: rows of held_event are deleted, and nothing else of the subscription is changed
 * mark target: from, to: the subscription's target changes, and the settings in the cursor do not
 * mark schema: from, to, is target: the target changes together with the settings in the cursor, by ALTER SCHEMA
 * mark name: to, filter: the subscription's name changes
 * mark filter: to: another setting that decides which rows are stored
 * mark again: seq: the subscription is deleted and inserted in one transaction
 * mark job: target: a job is inserted, and the cursor not moved
 *
 * guard cursor_was: a name goes away and comes back while a batch is applied; the process of the name in between has moved the cursor
 * guard same_row: the subscription is removed and made again under its name, at the same position; the batch of the former moves the cursor of the next
 * guard layout: the target changes, or its schema is renamed, while a batch notes a break; the batch is applied again under the name that it was read with: its job names a target that nobody fills, or it writes tables that have the name now
 * guard look_again: the target changes between the row that is read and the cursor; the batches go on in the former target
 * guard settings_are: the name goes away with another filter, is read there, and comes back; the batch of before is committed under the settings that the cursor notes since
 * guard no_wait: a batch has a repository, and waits for the row of the subscription; the session that has this row wants the repository
 * guard key_lock: a batch of another subscription has requested a job for this one, and not yet committed, when the target changes; the session does not see the job
 * guard request_looks: the fetcher has read the subscription, and requests a job after the target has changed; the code looks after it has written the row, and removes the row
 * guard release_looks (-DREVERSE -DT_REVERSE): held events are being released when their schema is renamed; the release requests a job under the former name
 * guard stop_as_read: a batch does not find its schema, which has another name; the subscription is stopped although the row has the new name
 */
#include "observe.h"

#define NAMES (TABLES + 1)	/* of schemas: one is free */
#define NOBODY 255

/* what a batch does */
#define ROW 0
#define BREAK 1
#define HOLD 2

/* the steps that leave marks, with their arguments */
#define MARK_noted 1			/* seq, target, filter */
#define MARK_moved 2			/* seq, target, kind */
#define MARK_released 3		/* target */
#define MARK_target 4		/* from, to */
#define MARK_schema 5		/* from, to */
#define MARK_name 6			/* to, filter */
#define MARK_filter 7		/* to */
#define MARK_again 8			/* seq */
#define MARK_job 9			/* target */

/* the committed row of atproto.subscription */
byte s_name = 0, s_target = 0, s_filter = 0, s_id = 0, s_version = 0;
bool s_stopped = false;
/* the name of the schema of each set of tables */
byte schema[TABLES];
/* the cursor, with the settings that it notes */
NUMBER c_seq = 0;
byte c_layout = 0;
byte c_target = NOBODY, c_filter = NOBODY;
/*
 * Locks, by the process: the cursor's row; the subscription's row, FOR NO KEY UPDATE or FOR UPDATE, and how many have it FOR KEY SHARE;
 * the rows of repositories; the catalog, so that a schema which a statement names does not go meanwhile.
 */
byte c_lock = NOBODY, r_lock = NOBODY, p_lock = NOBODY, ddl = NOBODY;
bool r_update = false;
byte r_shared = 0;
/* rows; held has the target + 1 */
byte stored[EVENTS + 1], held[EVENTS + 1], gone[EVENTS + 1];
bool job[NAMES], mark[TABLES];
byte ended = 0;

#define WAITS(target) (held[1] == target + 1 || held[EVENTS] == target + 1 || held[(EVENTS + 1) / 2] == target + 1)
#define MAY_SHARE (r_lock == NOBODY || !r_update)

inline find_tables(name, found)
{
	found = 0;
	do
	:: found < TABLES && schema[found] != name -> found++
	:: found < TABLES && schema[found] == name -> break
	:: found == TABLES -> found = NOBODY; break
	od
}

/* The end of a batch's transaction, with or without a commit. */
inline unlock_batch()
{
	c_lock = NOBODY; p_lock = NOBODY;
	if
	:: has_row -> r_shared--; has_row = false
	:: else
	fi
}

/* The process ends, and loses what it has read. */
inline forget()
{
	target = 0; filter = 0; id = 0; version = 0; layout = 0; kind = ROW; tables = 0; at = 0; h = 0
}

/* The process with the claim on this name. */
proctype consumer(byte me)
{
	byte target, filter, id, version, layout, kind, tables, h;
	NUMBER at;
	bool has_row = false;

end_start:
	atomic {
		s_name == me && !s_stopped && (c_seq < EVENTS || WAITS(s_target)) ->
		target = s_target; filter = s_filter; id = s_id; version = s_version
	}
	/* the cursor's row is waited for, and locked */
	atomic {
		(c_lock == NOBODY || s_name != me) ->
		if
		:: s_name != me -> forget(); goto end_start
		:: else
		fi;
		c_lock = _pid; at = c_seq; layout = c_layout;
#ifndef WITHOUT_look_again
		if
		:: version != s_version -> c_lock = NOBODY; forget(); goto end_start
		:: else
		fi
#endif
	}
	atomic {
		if
		/* note: of the row as it was read */
		:: c_target != target || c_filter != filter -> c_target = target; c_filter = filter; OBSERVE(MARK_noted, at, target, filter)
		:: else
		fi;
		c_lock = NOBODY
	}
loop:
	atomic {
		if
		/* an invalidation arrives, early or late: the row is read again, by this process or the next one */
		:: version != s_version || s_name != me -> forget(); goto end_start
		:: at < EVENTS -> kind = ROW
		:: at < EVENTS -> kind = BREAK
		:: at < EVENTS -> kind = HOLD
		:: WAITS(target) -> goto release
		:: at == EVENTS && !WAITS(target) -> forget(); goto end_start
		fi
	}
apply:
	atomic {
		p_lock == NOBODY -> find_tables(target, tables);
		if
		:: tables == NOBODY ->
			/* stop: after an ERROR the process stops the subscription, unless the row has changed since it was read */
			if
#ifndef WITHOUT_stop_as_read
			:: version != s_version || s_name != me
#endif
			:: else -> s_stopped = true /* unreached: because of the guard stop_as_read */
			fi;
			forget(); goto end_start
		:: else -> p_lock = _pid
		fi
	}
	/* lock: the rows are written; now the locks of the end, without waiting */
	atomic {
		if
		:: s_name == me && c_lock == NOBODY -> c_lock = _pid
		:: else -> p_lock = NOBODY; goto await
		fi;
		if
		:: kind == ROW
		:: kind != ROW && MAY_SHARE -> r_shared++; has_row = true
		:: kind != ROW && !MAY_SHARE ->
#ifndef WITHOUT_no_wait
			c_lock = NOBODY; p_lock = NOBODY; goto await
#endif
		fi
	}
#ifdef WITHOUT_no_wait
	atomic {
		if
		:: kind != ROW && !has_row -> MAY_SHARE -> r_shared++; has_row = true
		:: else
		fi
	}
#endif
	atomic {
		if
		:: (s_name != me
#ifndef WITHOUT_cursor_was
			|| c_seq != at
#endif
#ifndef WITHOUT_same_row
			|| s_id != id
#endif
#ifndef WITHOUT_layout
			|| c_layout != layout
#endif
#ifndef WITHOUT_settings_are
			|| c_target != target || c_filter != filter
#endif
			) -> unlock_batch(); forget(); goto end_start
		:: else
		fi;
		assert(c_seq == at);	/* without cursor_was */
		assert(s_id == id);	/* without same_row */
		assert(c_filter == filter);	/* without settings_are */
		assert(schema[tables] == s_target);	/* without layout, look_again */
		/* move */
		at++;
		assert(stored[at] + held[at] + gone[at] == 0);
		if
		:: kind == HOLD -> held[at] = target + 1
		:: kind == BREAK -> stored[at]++; mark[tables] = true; job[target] = true
		:: kind == ROW -> stored[at]++
		fi;
		c_seq = at;
		unlock_batch();
		OBSERVE(MARK_moved, at, target, kind);
		kind = ROW; tables = 0
	}
	goto loop;
await:
	/* the rows that a session has, one after another */
	atomic {
		(s_name != me || MAY_SHARE) ->
		if
		:: s_name != me -> forget(); goto end_start
		:: else
		fi
	}
	atomic {
		(s_name != me || c_lock == NOBODY) ->
		if
		:: s_name != me -> forget(); goto end_start
		:: else -> goto apply
		fi
	}
release:
	/* held events have been read, and are applied */
	atomic {
		p_lock == NOBODY -> find_tables(target, tables);
		if
		:: tables == NOBODY -> forget(); goto end_start
		:: else -> p_lock = _pid
		fi
	}
	atomic {
		if
		:: (!MAY_SHARE
#ifndef WITHOUT_release_looks
			|| s_name != me || c_layout != layout
#endif
			) -> p_lock = NOBODY; forget(); goto end_start
		:: else -> r_shared++
		fi
	}
	atomic {
		h = 1;
		do
		:: h <= EVENTS && held[h] != target + 1 -> h++
		:: else -> break
		od;
		if
		:: h <= EVENTS ->
			/* the release of an event may request a fetch, as a batch does */
			assert(schema[tables] == s_target);	/* without release_looks */
			held[h] = 0; stored[h]++; job[target] = true;
			OBSERVE(MARK_released, target, 0, 0)
		:: else
		fi;
		p_lock = NOBODY; r_shared--; h = 0; tables = 0
	}
	goto loop
}

/* Of another subscription or the fetcher: a job of this subscription is requested. */
proctype requester()
{
	byte target;

	if
	/* neighbour: one statement looks for a subscription that fetches into the target, and locks its row */
	:: atomic { MAY_SHARE -> target = s_target; r_shared++ }
	/* the subscription was read in an earlier transaction */
	:: atomic { target = s_target; skip };
		atomic {
			MAY_SHARE ->
			if
#ifndef WITHOUT_request_looks
			:: s_target != target -> goto done
#endif
			:: else -> r_shared++
			fi
		}
	fi;
	atomic { job[target] = true; r_shared--; OBSERVE(MARK_job, target, 0, 0) }
done:
	ended++
}

/* The rows of the target that the transaction sees. */
inline see_rows()
{
	atomic {
		sees_job = job[from];
		h = 1;
		do
		:: h <= EVENTS -> sees_held[h] = (held[h] == from + 1); h++
		:: else -> break
		od
	}
}

/* The repositories of held events are marked, and the events removed: their rows are locked first. */
inline drop_rows()
{
	if
	:: sees_held[1] || sees_held[EVENTS] || sees_held[(EVENTS + 1) / 2] ->
		atomic { p_lock == NOBODY -> p_lock = _pid }
		see_rows()
	:: else
	fi
}

/* At the commit. */
inline remove_rows()
{
	h = 1;
	do
	:: h <= EVENTS ->
		if
		:: sees_held[h] && held[h] == from + 1 -> held[h] = 0; gone[h]++
		:: else
		fi;
		h++
	:: else -> break
	od;
	/* jobs */
	if
	:: sees_job -> job[from] = false
	:: else
	fi;
	/* the subscription repairs the tables no more */
	h = 0;
	do
	:: h < TABLES -> mark[h] = false; h++
	:: else -> break
	od
}

inline commit_session()
{
	s_version++; c_lock = NOBODY; r_lock = NOBODY; r_update = false;
	if
	:: p_lock == _pid -> p_lock = NOBODY
	:: else
	fi;
	if
	:: ddl == _pid -> ddl = NOBODY
	:: else
	fi
}

inline forget_session()
{
	from = 0; to = 0; t = 0; u = 0; h = 0; sees_job = false; is_target = false;
	sees_held[1] = false; sees_held[EVENTS] = false; sees_held[(EVENTS + 1) / 2] = false
}

proctype session()
{
	byte n = 0, from, to, t, u, h;
	bool sees_job, sees_held[EVENTS + 1], is_target;

	do
	:: n == CHANGES -> break
	:: n < CHANGES -> n++;
		/* UPDATE … SET collections */
		atomic { r_lock == NOBODY -> r_lock = _pid }
		atomic { s_filter = 1 - s_filter; commit_session(); OBSERVE(MARK_filter, s_filter, 0, 0) }
	:: n < CHANGES -> n++;
		/* UPDATE … SET name, perhaps with other filters; a foreign key has the cursor's row follow */
		atomic { r_lock == NOBODY && r_shared == 0 -> r_lock = _pid; r_update = true }
		atomic { c_lock == NOBODY -> c_lock = _pid }
		atomic {
			s_name = 1 - s_name;
			if
			:: s_filter = 1 - s_filter
			:: skip
			fi;
			commit_session();
			OBSERVE(MARK_name, s_name, s_filter, 0)
		}
	:: n < CHANGES -> n++;
		/* UPDATE … SET target, to other tables */
		atomic { ddl == NOBODY -> ddl = _pid }
		atomic { r_lock == NOBODY -> r_lock = _pid; from = s_target }
		/* wait */
#ifndef WITHOUT_key_lock
		atomic { r_shared == 0 -> r_update = true }
#endif
		atomic { c_lock == NOBODY -> c_lock = _pid }
		see_rows();
		drop_rows();
		atomic {
			if
			:: schema[0] != from -> t = 0
			:: schema[TABLES - 1] != from -> t = TABLES - 1
			fi;
			remove_rows();
			s_target = schema[t];
			c_layout++;
			commit_session();
			OBSERVE(MARK_target, from, s_target, 0);
			forget_session()
		}
	:: n < CHANGES -> n++;
		/* ALTER SCHEMA … RENAME: a schema gets the free name, or two schemas exchange their names in one transaction */
		atomic {
			ddl == NOBODY -> ddl = _pid;
			do
			:: t < TABLES - 1 -> t++
			:: break
			od;
			do
			:: u < TABLES - 1 -> u++
			:: break
			od;
			/* the target of the subscription, if it is one of them, is t */
			if
			:: schema[u] == s_target -> h = t; t = u; u = h
			:: else
			fi;
			from = schema[t];
			to = schema[u];
			if
			:: t == u ->
				to = NAMES * (NAMES - 1) / 2; h = 0;
				do
				:: h < TABLES -> to = to - schema[h]; h++
				:: else -> break
				od
			:: else
			fi;
			is_target = (s_target == from);
			h = 0
		}
		if
		:: is_target ->
			atomic { r_lock == NOBODY && r_shared == 0 -> r_lock = _pid; r_update = true }
			atomic { c_lock == NOBODY -> c_lock = _pid }
			see_rows()
		:: else
		fi;
		atomic {
			if
			:: t != u -> schema[u] = from
			:: else
			fi;
			schema[t] = to;
			if
			:: is_target ->
				s_target = to;
				if
				:: c_target == from && c_filter == s_filter -> c_target = to
				:: else
				fi;
				c_layout++;
				if
				:: sees_job -> job[from] = false; job[to] = true
				:: else
				fi;
				h = 1;
				do
				:: h <= EVENTS ->
					if
					:: sees_held[h] && held[h] == from + 1 -> held[h] = to + 1
					:: else
					fi;
					h++
				:: else -> break
				od
			:: else
			fi;
			commit_session();
			OBSERVE(MARK_schema, from, to, is_target);
			forget_session()
		}
	:: n < CHANGES -> n++;
		/* unsubscribe(), and subscribe() with the same name, at the same position */
		atomic { r_lock == NOBODY && r_shared == 0 -> r_lock = _pid; r_update = true; from = s_target }
		see_rows();
		drop_rows();
		atomic { c_lock == NOBODY -> c_lock = _pid }
		atomic {
			remove_rows();
			s_id++; s_stopped = false; c_target = NOBODY; c_filter = NOBODY; c_layout = 0;
			commit_session();
			OBSERVE(MARK_again, c_seq, 0, 0);
			forget_session()
		}
	od;
	ended++
}

/* When nobody can go on, all is done. */
active proctype monitor()
{
	byte h = 0;

	atomic {
		do
		:: h < TABLES -> schema[h] = h; h++
		:: else -> break
		od;
		run consumer(0); run consumer(1); run requester();
		h = 0;
		do
		:: h < SESSIONS -> run session(); h++
		:: else -> break
		od
	}
end_wait:
	atomic {
		timeout ->
		assert(ended == SESSIONS + 1);	/* without no_wait */
		assert(!s_stopped);	/* without stop_as_read */
		assert(c_lock == NOBODY && r_lock == NOBODY && p_lock == NOBODY && r_shared == 0);
		assert(c_seq == EVENTS);
		h = 1;
		do
		:: h <= EVENTS -> assert(stored[h] + gone[h] == 1 && held[h] == 0); h++
		:: else -> break
		od;
		h = 0;
		do
		:: h < NAMES -> assert(!job[h] || h == s_target); h++	/* without key_lock, request_looks */
		:: else -> break
		od;
		h = 0;
		do
		:: h < TABLES -> assert(!mark[h] || schema[h] != s_target || job[s_target]); h++
		:: else -> break
		od
	}
}
