-- What a curator asks of topics, intents, passages, judgments, verdicts and calls, as joins of those tables.
-- A topic lies in one partition with all that is its own: joining by both lets a filter on either reach every file.

-- One row a rejected topic: who rejected it, and on what evidence ("" where the recipe itself made none of the seed).
CREATE VIEW rejects AS
SELECT t.topic_id, t.partition, t.seed_id, t.corpus, t.recipe, t.query, t.reason,
       coalesce(v.first.validator, '') AS validator,
       coalesce(v.first.scope, '') AS scope,
       coalesce(v.first.evidence, '') AS evidence,
       t.detail
FROM topics AS t
LEFT JOIN (
    SELECT partition, topic_id, reason,
           min(struct_pack(validator := validator, scope := scope, evidence := evidence)) AS first
    FROM verdicts
    WHERE outcome = 'reject'
    GROUP BY ALL
) AS v USING (partition, topic_id, reason)
WHERE t.status = 'rejected';

-- One row for each relevant with each non-relevant passage of one intent, of accepted topics. The passages come by
-- LEFT JOIN although each is there: without statistics DuckDB would else join them with each other first.
CREATE VIEW triplets AS
SELECT pairs.topic_id, pairs.partition, pairs.seed_id, pairs.corpus, pairs.split,
       pairs.intent_id, pairs.intent_role, pairs.instruction, pairs.query,
       positive_id, p.role AS positive_role, p.title AS positive_title, p.text AS positive,
       negative_id, n.role AS negative_role, n.title AS negative_title, n.text AS negative
FROM (
    SELECT i.topic_id, i.partition, t.seed_id, t.corpus, t.split, i.intent_id, i.role AS intent_role, i.instruction, i.query,
           yes.passage_id AS positive_id, no.passage_id AS negative_id
    FROM judgments AS yes
    JOIN judgments AS no USING (partition, topic_id, intent_id)
    JOIN intents AS i USING (partition, topic_id, intent_id)
    JOIN topics AS t USING (partition, topic_id)
    WHERE t.status = 'accepted' AND yes.relevance > 0 AND no.relevance < 0
) AS pairs
LEFT JOIN passages AS p
    ON p.partition = pairs.partition AND p.topic_id = pairs.topic_id AND p.passage_id = pairs.positive_id
LEFT JOIN passages AS n
    ON n.partition = pairs.partition AND n.topic_id = pairs.topic_id AND n.passage_id = pairs.negative_id;
