-- What the live feed prints each second: new posts, and posts whose likes have reached ten, twenty, …  The last line
-- is the number of the last post.  Variables: last, that number of the time before; strong and plain, for the terminal.
\set QUIET on
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT :'strong' || rpad(author, 28) || :'plain' || line FROM shown WHERE n > :last ORDER BY n LIMIT 6;

WITH reached AS (
    INSERT INTO told AS t
    SELECT l.post, l.n FROM likes l LEFT JOIN told USING (post) WHERE l.n / 10 > coalesce(told.n, 0) / 10
    ON CONFLICT (post) DO UPDATE SET n = excluded.n
    RETURNING t.post, t.n)
SELECT rpad('', 20) || '♥ ' || rpad(r.n::text, 6) || author || ': ' || line
FROM reached r JOIN shown USING (post) ORDER BY r.n DESC LIMIT 2;

SELECT coalesce(max(n), :last) FROM feed;
COMMIT;
