-- The twenty questions of docs/sql.md, each under its words: the desk's SQL page offers them, and a test asks each.

-- How many topics are there, by outcome?
SELECT status, count(*) AS topics, round(100 * count(*) / sum(count(*)) OVER (), 1) AS percent
FROM topics GROUP BY status ORDER BY topics DESC;

-- Why were topics rejected?
SELECT reason, validator, count(*) AS topics, any_value(coalesce(nullif(evidence, ''), detail)) AS example
FROM rejects GROUP BY reason, validator ORDER BY topics DESC;

-- Which corpora and recipes lose most?
SELECT corpus, recipe, count(*) AS topics, round(avg((status = 'accepted')::INT), 3) AS accepted
FROM topics GROUP BY corpus, recipe ORDER BY accepted;

-- How many topics and triplets has each split?
SELECT split, count(DISTINCT topic_id) AS topics, count(*) AS triplets FROM triplets GROUP BY split;

-- How long are instructions, in words?
SELECT role, min(n), round(avg(n), 1) AS mean, quantile_disc(n, 0.9) AS p90, max(n)
FROM (SELECT role, len(regexp_split_to_array(trim(instruction), '\s+')) AS n FROM intents WHERE instruction <> '')
GROUP BY role;

-- Which instructions are repeated?
SELECT instruction, count(DISTINCT topic_id) AS topics FROM intents WHERE instruction <> ''
GROUP BY instruction ORDER BY topics DESC, instruction LIMIT 20;

-- How do instructions begin?
SELECT array_to_string(string_split(instruction, ' ')[1:3], ' ') AS beginning, count(*) AS intents
FROM intents WHERE instruction <> '' GROUP BY beginning ORDER BY intents DESC, beginning LIMIT 20;

-- Which constraint families are asked for?
SELECT family, count(*) AS intents FROM (
    SELECT unnest(json_extract_string(attributes['constraints'], '$[*].family')) AS family FROM intents
) GROUP BY family ORDER BY intents DESC;

-- How many passages has a topic, and of which roles?
SELECT role, count(*) AS passages, round(count(*) / count(DISTINCT topic_id), 2) AS each_topic,
       round(avg(length(text))) AS characters
FROM passages GROUP BY role ORDER BY passages DESC;

-- Which passages serve many topics?
SELECT passage_id, count(DISTINCT topic_id) AS topics, any_value(title) AS title, any_value(left(text, 80)) AS text
FROM passages GROUP BY passage_id ORDER BY topics DESC, passage_id LIMIT 20;

-- Which passages turn from relevant to not relevant under an instruction?
SELECT t.query, i.instruction, p.title, left(p.text, 200) AS text
FROM judgments AS bare
JOIN intents AS o ON o.topic_id = bare.topic_id AND o.intent_id = bare.intent_id AND o.role = 'original'
JOIN judgments AS judged ON judged.topic_id = bare.topic_id AND judged.passage_id = bare.passage_id
JOIN intents AS i ON i.topic_id = judged.topic_id AND i.intent_id = judged.intent_id AND i.role = 'instructed'
JOIN passages AS p ON p.topic_id = bare.topic_id AND p.passage_id = bare.passage_id
JOIN topics AS t ON t.topic_id = bare.topic_id
WHERE bare.relevance = 1 AND judged.relevance = -1 LIMIT 20;

-- How many pairs of intent and passage did nobody judge?
SELECT i.role AS intent, p.role AS passage, count(*) AS pairs, count(*) - count(j.relevance) AS unjudged
FROM intents AS i JOIN passages AS p USING (partition, topic_id)
LEFT JOIN judgments AS j USING (partition, topic_id, intent_id, passage_id)
GROUP BY ALL ORDER BY unjudged DESC;

-- Who judged, and how?
SELECT judge, count(*) AS judgments, round(avg((relevance = 1)::INT), 3) AS relevant
FROM judgments GROUP BY judge ORDER BY judgments DESC;

-- What did each check do?
SELECT validator, outcome, reason, count(*) AS verdicts, sum(cost_usd) AS usd
FROM verdicts GROUP BY ALL ORDER BY validator, verdicts DESC;

-- Where do queries and their relevant passages share fewest words?
SELECT query, positive_title, round(list_aggregate(list_transform(
           string_split(lower(query), ' '), lambda word: contains(lower(positive), word)::INT), 'avg'), 2) AS shared
FROM triplets WHERE intent_role = 'original' ORDER BY shared, query LIMIT 20;

-- Are positives longer than negatives?
SELECT intent_role, round(avg(length(positive))) AS positive, round(avg(length(negative))) AS negative
FROM triplets GROUP BY intent_role;

-- What did it cost, by task and model?
SELECT task, model, count(*) AS calls, sum(prompt_tokens + completion_tokens) AS tokens,
       sum(cost_usd) FILTER (NOT reused) AS usd
FROM calls GROUP BY task, model ORDER BY usd DESC;

-- What did an accepted topic cost?
SELECT sum(cost_usd) / nullif((SELECT count(*) FROM topics WHERE status = 'accepted'), 0) AS usd FROM calls;

-- What may be passed on?
SELECT licence, redistributable, count(*) AS topics FROM topics WHERE status = 'accepted'
GROUP BY licence, redistributable ORDER BY topics DESC;

-- How do two runs differ, reason by reason? (`foil sql A B "…"`)
PIVOT (SELECT run, status, reason FROM topics) ON run USING count(*) GROUP BY status, reason ORDER BY status, reason;
