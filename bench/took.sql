-- Included by the programs of bench: how long a statement takes, in milliseconds that this process has had on a processor (Linux's
-- schedstat), so that the machine's other processes count less than by the clock.
CREATE FUNCTION busy() RETURNS float8 LANGUAGE sql VOLATILE AS
	$$ SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e6 $$;
CREATE FUNCTION took(statement text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	started float8 := busy();
BEGIN
	EXECUTE statement;
	RETURN busy() - started;
END $$;
