-- One way to remove old rows, :remove, and what it costs.
SELECT busy() AS started, pg_current_wal_lsn() AS lsn, size_of_record() AS before \gset
:remove;
INSERT INTO removal
SELECT format('| `%s` | %s | %s | %s, %s |', :'remove', round((busy() - :started)::numeric / 1000, 2),
			  round((pg_current_wal_lsn() - :'lsn') / 1e6, 1), round(:before), round(size_of_record()));
