-- The outbox table on PostgreSQL, as the Java framework Ekbatan defines it: 13 columns, in this order.

CREATE SCHEMA IF NOT EXISTS eventlog;

CREATE TABLE IF NOT EXISTS eventlog.events (
    -- Also the replica identity: without a primary key a publication that carries updates would refuse every UPDATE.
    id              UUID         PRIMARY KEY,
    namespace       VARCHAR(255) NOT NULL,
    -- Shared by all rows that one action committed together.
    action_id       UUID         NOT NULL,
    action_name     VARCHAR(255) NOT NULL,
    action_params   JSONB        NOT NULL,
    -- Without a zone: dates are UTC by agreement, so no setting of a session can shift them.
    started_date    TIMESTAMP    NOT NULL,
    completion_date TIMESTAMP    NOT NULL,
    model_id        VARCHAR(255),
    model_type      VARCHAR(255),
    -- NULL marks a sentinel: an action without events still leaves one row, and it is never published.
    event_type      VARCHAR(255),
    payload         JSONB,
    event_date      TIMESTAMP    NOT NULL,
    -- Without a default: the application decides. Headwater never writes it.
    delivered       BOOLEAN      NOT NULL
);

CREATE INDEX IF NOT EXISTS idx_events_action_id ON eventlog.events (action_id);
