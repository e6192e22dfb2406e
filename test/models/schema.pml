/*
 * Tables: commands that replace, divide, drop and compare tables while a consumer writes them.
 *
 * Modelled: the tables link and record; record is a plain table, or has a partition of a month and a rest.  The locks
 * of PostgreSQL that matter here: ACCESS SHARE, ROW EXCLUSIVE, SHARE ROW EXCLUSIVE, ACCESS EXCLUSIVE, by the number of the table, so a table that
 * replaces another one under its name has locks of its own.  A batch inserts or deletes one record with its link; with other settings it
 * keeps no links, and then does not lock link.  A session of a user has locked one table and wants the other, or has read and then writes.
 * partition() converts record, maintain_partitions() drops the month, rebuild_links() compares; each once, in any order.
 * Left out: rows that a session has locked (maintain_partitions() passes over them until the table is locked); Citus; the queue of
 * a lock, in which a later request waits behind an earlier one; several steps of maintain_partitions() before the drop, each of
 * which takes records and links away together; a purge, which takes locks as a batch does.  A session that deadlocks with
 * another one than the batch is the server's victim, as between two users.
 *
 * Claims, in words:
 *  - a record that was committed is in the table that has the name, until it is deleted or its month is dropped;
 *  - a record has its link if links are wanted, and there is no link without its record, once rebuild_links() has run without a warning, and the settings have not changed since it read them;
 *  - a batch waits for nobody for ever, and nobody for a batch.
 *
 * short: -DBATCHES=1
 * long: -DBATCHES=3
 *
 * step lock: tables/base/table_locks.c atp_tables_lock()
 * step wait: tables/apply/apply.c begin_locked()
 * step batch: tables/apply/apply.c apply_once()
 * step settings: process/consumer/consumer_settings.c atp_consumer_read_settings()
 * step partition: tables/commands/partition.c convert_table()
 * step swap: tables/commands/partition_swap.c atp_swap_end()
 * step attempt: tables/commands/partition_lock.c attempt_locks()
 * step drop: tables/commands/partition_keep.c drop_partition()
 * step links: tables/commands/partition_keep.c prepare_drop()
 * step rebuild: tables/commands/link_rebuild.c rebuild_links()
 * step isolation: tables/commands/partition.c check_arguments()
 *
 * mark batch: place, value, links: a transaction of a consumer or the fetcher has changed the record, or its links
 * mark session: place, value, links: another transaction has written the record
 * mark swapped: place, value, links: partition() has replaced the table that had the record
 * mark moved: place, value, links: the record has gone to another partition
 * mark dropped: place, value, links: maintain_partitions() removes the record, with its links
 * mark rebuilt: place, value, links: only links were changed
 * mark noted: settings: the consumer notes other settings about links in the cursor
 * mark again: a row is inserted that is there, or deleted that is not: no step does
 * mark wanted: settings: a session changes these settings
 *     place: the number of the table that has the record, 1: a plain one, 0: none; value: 0: none; links: their number.  The settings 0 want no
 *     links; 0 are noted at first, and until the subscription's first batch.
 * A trace is about one record of a target that one subscription fills, and had links at some time.  How many links a value has with some
 * settings is learned when a transaction shows it, and stays.  Locks are in no trace, nor is a partition that is dropped with the records
 * in it, nor a rebuild_links() that finds nothing to do.
 *
 * guard none_kept: a batch keeps the lock on record while it waits for link; a session has link and wants record
 * guard still_it: partition() replaces record between the look-up of its number and the lock; the batch has not locked the new table, and waits for it with link locked, for which the session waits that has it
 * guard copy_late: the rows are copied by a snapshot from before the lock; a record of a batch that has committed in between is dropped with the former table
 * guard lock_out: the links of the month's last records are removed while batches write on; a record comes after, and its link stays
 * guard give_back: the month is locked against writers while its exclusive lock is waited for; a session has read it, and wants to write
 * guard lock_link (-DREVERSE -DT_REVERSE): rebuild_links() reads the records without the lock on link; a batch deletes a record, and its link comes back
 * guard settings_late (-DREVERSE): rebuild_links() reads what links are wanted before it waits for the lock; they are wanted since, and the links of a batch are removed
 */
#include "observe.h"

#define NOBODY 255
#define LINK 0
#define PLAIN 1			/* record before partition() */
#define RECORD 2		/* record in partitions */
#define MONTH 3			/* the partition of key 0 */
#define TABLES 4
#define KEYS 2

#define MARK_batch 1
#define MARK_session 2
#define MARK_swapped 3
#define MARK_moved 4
#define MARK_dropped 5
#define MARK_rebuilt 6
#define MARK_noted 7
#define MARK_wanted 8
#define MARK_again 9

#ifdef TRACE
/* ------------------------------------------------------------------------
 * The same steps for one record, as far as transactions show them
 * ------------------------------------------------------------------------
 */
#define AT(v, s) ((v) * SETTINGS + (s))

byte place = 0, value = 0, has = 0;
byte wants = 0, notes = 0;
bool divided = false;
byte known[VALUES * SETTINGS];	/* how many links a value has with these settings, + 1; 0: nobody has said it */

/* With these settings the value has so many links. */
inline learn(v, s, number)
{
	if
	:: v == 0 || s == 0 -> number == 0
	:: v != 0 && s != 0 && known[AT(v, s)] == 0 -> known[AT(v, s)] = number + 1
	:: v != 0 && s != 0 && known[AT(v, s)] != 0 -> known[AT(v, s)] == number + 1
	fi
}

inline mark_of(step)
{
	next_step = 0; next_a = 0; next_b = 0; next_c = 0;
	OBSERVE(step, place, value, has)
}

active proctype shown()
{
	do
	:: atomic {
		PEEK;
		next_step == MARK_batch ->
		if
		/* with settings that want no links, the batch leaves link alone */
		:: notes == 0
		:: notes != 0 -> learn(next_b, notes, next_c); has = next_c
		fi;
		(value != next_b || place != next_a) && (place == next_a || place == 0 || next_a == 0) && !(divided && next_a == 1) ->
		value = next_b; place = next_a;
		mark_of(MARK_batch)
	   }
	:: atomic { PEEK; next_step == MARK_session && !(divided && next_a == 1) -> place = next_a; value = next_b; divided = divided || place > 1; mark_of(MARK_session) }
	:: atomic { PEEK; next_step == MARK_swapped && place == 1 && next_a > 1 -> place = next_a; divided = true; mark_of(MARK_swapped) }
	:: atomic { PEEK; next_step == MARK_moved && place > 1 && next_a > 1 && next_a != place -> place = next_a; mark_of(MARK_moved) }
	/* drop, or a step before */
	:: atomic { PEEK; next_step == MARK_dropped && place > 1 -> place = 0; value = 0; has = 0; mark_of(MARK_dropped) }
	:: atomic { PEEK; next_step == MARK_rebuilt && has != next_c -> learn(value, wants, next_c); has = next_c; mark_of(MARK_rebuilt) }
	:: atomic { PEEK; next_step == MARK_wanted && next_a != wants -> wants = next_a; OBSERVE(MARK_wanted, wants, 0, 0) }
	:: atomic { PEEK; next_step == MARK_noted && notes != wants -> notes = wants; OBSERVE(MARK_noted, notes, 0, 0) }
	od
}

#else

/* locks: who has ROW EXCLUSIVE, ACCESS SHARE (a bit for each process), SHARE ROW EXCLUSIVE, ACCESS EXCLUSIVE */
byte rx[TABLES], as[TABLES], sre[TABLES], ax[TABLES];
/* rows: does the record of the key exist, in which table; does its link; what the batches say */
bool record[KEYS], link[KEYS], wanted[KEYS];
byte record_is = PLAIN;			/* the table of that name */
bool has_month = false;
bool links = true, noted = true;	/* the subscription's row, and what the cursor notes */
bool settled = true;				/* links are as wanted, until somebody's settings are past */
byte ended = 0, changes = 0;

#define ME (1 << _pid)
#define FREE_OF(who, t) (who[t] == 0 || who[t] == _pid)
#define CAN_AS(t) FREE_OF(ax, t)
#define CAN_RX(t) (FREE_OF(ax, t) && FREE_OF(sre, t))
#define CAN_SRE(t) (FREE_OF(ax, t) && FREE_OF(sre, t) && (rx[t] & ~ME) == 0)
#define CAN_AX(t) (FREE_OF(ax, t) && FREE_OF(sre, t) && ((rx[t] | as[t]) & ~ME) == 0)

inline unlock_all()
{
	i = 0;
	do
	:: i < TABLES ->
		rx[i] = rx[i] & ~ME; as[i] = as[i] & ~ME;
		if
		:: sre[i] == _pid -> sre[i] = 0
		:: else
		fi;
		if
		:: ax[i] == _pid -> ax[i] = 0
		:: else
		fi;
		i++
	:: else -> break
	od;
	i = 0
}

inline check_rows()
{
	i = 0;
	do
	:: i < KEYS ->
		assert(record[i] == wanted[i]);	/* without copy_late */
		assert(!settled || link[i] == (record[i] && links));	/* without lock_link, lock_out, settings_late */
		i++
	:: else -> break
	od;
	i = 0
}

proctype batch()
{
	byte n = 0, k, i, t, first = NOBODY;
	bool uses_links = true;

	do
	:: n == BATCHES && links == uses_links -> break
	/* the settings are read, and noted with the position */
	:: atomic { links != uses_links -> uses_links = links; noted = links; OBSERVE(MARK_noted, links, 0, 0) }
	:: n < BATCHES ->
		atomic {
			if
			:: k = 0
			:: k = 1
			fi
		}
again:
		/* wait for the table that was locked elsewhere, with nothing else locked */
		if
		:: first != NOBODY -> atomic { CAN_RX(first) -> rx[first] = rx[first] | ME; first = NOBODY }
		:: else
		fi;
		if
		:: uses_links ->
			atomic {
				if
				:: CAN_RX(LINK) -> rx[LINK] = rx[LINK] | ME
				:: else -> first = LINK
				fi
			}
		:: else
		fi;
		/* the number of the table that has the name, then the lock */
		if
		:: first == NOBODY ->
			atomic { t = record_is }
			atomic {
				if
				:: !CAN_RX(t) || (has_month && t == RECORD && !CAN_RX(MONTH)) -> first = (CAN_RX(t) -> MONTH : t)
#ifndef WITHOUT_still_it
				:: CAN_RX(t) && t != record_is -> first = t
#endif
				:: else ->
					rx[t] = rx[t] | ME;
					if
					:: has_month && t == RECORD -> rx[MONTH] = rx[MONTH] | ME
					:: else
					fi
				fi
			}
		:: else
		fi;
		if
		:: first != NOBODY ->
#ifndef WITHOUT_none_kept
			atomic { unlock_all() }
#endif
			goto again
		:: else
		fi;
		/* the statements take their own locks, and wait for them */
		atomic { t = record_is; CAN_RX(t) }
		atomic {
			t == record_is && CAN_RX(t) && !(has_month && !CAN_RX(MONTH)) ->
			rx[t] = rx[t] | ME
		}
		atomic {
			record[k] = !record[k]; wanted[k] = record[k];
			if
			:: uses_links -> link[k] = record[k]
			:: else -> settled = settled && !links
			fi;
			unlock_all();
			check_rows();
			OBSERVE(MARK_batch, 0, record[k], link[k]);
			t = 0; k = 0
		}
		n++
	od;
	ended++
}

/* A user's session. */
proctype session()
{
	byte a, b, i;

	if
	/* TRUNCATE of one table, and then of the other */
	:: atomic { a = LINK; b = record_is }
	:: atomic { a = record_is; b = LINK }
	/* a record is read, and then written */
	:: atomic {
			CAN_AS(record_is) && (!has_month || CAN_AS(MONTH)) -> a = record_is; as[a] = as[a] | ME;
			if
			:: has_month -> as[MONTH] = as[MONTH] | ME
			:: else
			fi
		}
		atomic {
			CAN_RX(a) && (!has_month || CAN_RX(MONTH)) -> unlock_all()
		}
		goto done
	fi;
	atomic { CAN_AX(a) -> ax[a] = _pid }
	atomic {
		if
		:: CAN_AX(b)
		:: sre[b] != 0 || ax[b] != 0 || (rx[b] & ~(1 << 1)) != 0 || as[b] != 0
		fi;
		unlock_all(); a = 0; b = 0
	}
done:
	ended++
}

/* The operator changes which links are kept. */
proctype operator()
{
	atomic { links = false; settled = false; changes++ }
	atomic { links = true; settled = false; changes++ }
	ended++
}

proctype partition()
{
	byte i;
	bool sees[KEYS];

	/* isolation: at REPEATABLE READ the snapshot would be as old as the transaction */
#ifdef WITHOUT_copy_late
	atomic { sees[0] = record[0]; sees[1] = record[1] }
#endif
	atomic { CAN_AX(PLAIN) -> ax[PLAIN] = _pid }
#ifndef WITHOUT_copy_late
	atomic { sees[0] = record[0]; sees[1] = record[1] }
#endif
	atomic {
		record[0] = sees[0]; record[1] = sees[1];
		/* swap */
		record_is = RECORD; has_month = true;
		unlock_all();
		check_rows();
		OBSERVE(MARK_swapped, 0, 0, 0)
	}
	ended++
}

proctype maintain()
{
	byte i;
	bool sees;

	has_month;
attempt:
	atomic {
		CAN_RX(LINK) -> rx[LINK] = rx[LINK] | ME
	}
#ifndef WITHOUT_lock_out
	atomic { CAN_SRE(MONTH) -> sre[MONTH] = _pid }
#endif
	/* the links of the last records */
	atomic { sees = record[0] }
	if
	:: atomic { CAN_AX(RECORD) && CAN_AX(MONTH) -> ax[RECORD] = _pid; ax[MONTH] = _pid }
#ifndef WITHOUT_give_back
	/* not in time */
	:: atomic { !(CAN_AX(RECORD) && CAN_AX(MONTH)) -> unlock_all(); goto attempt }
#endif
	fi;
	atomic {
		if
		:: sees -> link[0] = false
		:: else
		fi;
		/* drop */
		record[0] = false; wanted[0] = false; has_month = false;
		unlock_all();
		check_rows();
		OBSERVE(MARK_dropped, 0, 0, 0)
	}
	ended++
}

proctype rebuild()
{
	byte i, at;
	bool sees[KEYS], keeps, warns;

#ifdef WITHOUT_settings_late
	atomic { keeps = links; warns = (links != noted) }
#endif
#ifndef WITHOUT_lock_link
	atomic { CAN_SRE(LINK) -> sre[LINK] = _pid }
#endif
	atomic {
#ifndef WITHOUT_settings_late
		keeps = links; warns = (links != noted);
#endif
		at = changes
	}
	atomic { CAN_AS(record_is) -> as[record_is] = as[record_is] | ME; sees[0] = record[0]; sees[1] = record[1] }
	atomic {
		link[0] = sees[0] && keeps; link[1] = sees[1] && keeps;
		if
		:: !warns && at == changes -> settled = true
		:: else
		fi;
		unlock_all();
		check_rows();
		OBSERVE(MARK_rebuilt, 0, 0, 0)
	}
	ended++
}

active proctype monitor()
{
	/* the batch is process 1: the session knows it by this number */
	atomic { run batch(); run session(); run operator(); run partition(); run maintain(); run rebuild() }
end_wait:
	atomic { timeout -> assert(ended == 6) }	/* without give_back, none_kept, still_it */
}
#endif
