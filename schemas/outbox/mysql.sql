-- The outbox table on MySQL, as the Java framework Ekbatan defines it: 13 columns, in this order.

-- A database of its own, where PostgreSQL has a schema: the table is eventlog.events on both.
CREATE DATABASE IF NOT EXISTS eventlog CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS eventlog.events (
    -- MySQL has no uuid type; ascii keeps the key at 36 bytes where utf8mb4 would reserve 144.
    id              CHAR(36) CHARACTER SET ascii NOT NULL PRIMARY KEY,
    namespace       VARCHAR(255) NOT NULL,
    -- Shared by all rows that one action committed together.
    action_id       CHAR(36) CHARACTER SET ascii NOT NULL,
    action_name     VARCHAR(255) NOT NULL,
    action_params   JSON         NOT NULL,
    -- DATETIME, not TIMESTAMP: dates are UTC by agreement, and only TIMESTAMP is shifted by a session's time zone.
    -- (6): without it the fraction of a second is lost.
    started_date    DATETIME(6)  NOT NULL,
    completion_date DATETIME(6)  NOT NULL,
    model_id        VARCHAR(255),
    model_type      VARCHAR(255),
    -- NULL marks a sentinel: an action without events still leaves one row, and it is never published.
    event_type      VARCHAR(255),
    payload         JSON,
    event_date      DATETIME(6)  NOT NULL,
    -- Without a default: the application decides. Headwater never writes it.
    delivered       BOOLEAN      NOT NULL,

    -- Here, because MySQL's CREATE INDEX knows no IF NOT EXISTS.
    INDEX idx_events_action_id (action_id)
);
