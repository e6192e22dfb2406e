-- The five questions of JSONBench, asked of its own layout of the same records: one
-- document per event, as Jetstream sends it.
-- Q1: events by collection
SELECT data->'commit'->>'collection' AS event, count(*) AS count
FROM bluesky
GROUP BY event ORDER BY count DESC;

-- Q2: and their authors
SELECT data->'commit'->>'collection' AS event, count(*) AS count, count(DISTINCT data->>'did') AS users
FROM bluesky
WHERE data->>'kind' = 'commit' AND data->'commit'->>'operation' = 'create'
GROUP BY event ORDER BY count DESC;

-- Q3: posts, reposts and likes by hour of the day
SELECT data->'commit'->>'collection' AS event,
	   extract(hour FROM to_timestamp((data->>'time_us')::bigint / 1000000)) AS hour_of_day, count(*) AS count
FROM bluesky
WHERE data->>'kind' = 'commit' AND data->'commit'->>'operation' = 'create'
	AND data->'commit'->>'collection' IN ('app.bsky.feed.post', 'app.bsky.feed.repost', 'app.bsky.feed.like')
GROUP BY event, hour_of_day ORDER BY hour_of_day, event;

-- Q4: the three who posted first
SELECT data->>'did' AS user_id,
	   min(timestamptz 'epoch' + interval '1 microsecond' * (data->>'time_us')::bigint) AS first_post_ts
FROM bluesky
WHERE data->>'kind' = 'commit' AND data->'commit'->>'operation' = 'create'
	AND data->'commit'->>'collection' = 'app.bsky.feed.post'
GROUP BY user_id ORDER BY first_post_ts LIMIT 3;

-- Q5: the three with the longest time between first and last post
SELECT data->>'did' AS user_id,
	   extract(epoch FROM max(timestamptz 'epoch' + interval '1 microsecond' * (data->>'time_us')::bigint) -
						  min(timestamptz 'epoch' + interval '1 microsecond' * (data->>'time_us')::bigint)) * 1000 AS activity_span
FROM bluesky
WHERE data->>'kind' = 'commit' AND data->'commit'->>'operation' = 'create'
	AND data->'commit'->>'collection' = 'app.bsky.feed.post'
GROUP BY user_id ORDER BY activity_span DESC LIMIT 3;
