-- To be included by bench/*.sql: microseconds on a processor, so that other programs on the machine count less.
CREATE FUNCTION busy() RETURNS float8 LANGUAGE sql AS
	$$ SELECT split_part(pg_read_file('/proc/self/schedstat'), ' ', 1)::float8 / 1e3 $$;
CREATE FUNCTION took(statement text) RETURNS float8 LANGUAGE plpgsql AS $$
DECLARE
	started float8 := busy();
BEGIN
	EXECUTE statement;
	RETURN busy() - started;
END $$;
