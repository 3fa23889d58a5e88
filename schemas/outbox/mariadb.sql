-- The outbox table on MariaDB (10.7 or later, for UUID), as the Java framework Ekbatan defines it: 13 columns, in this order.

-- A database of its own, where PostgreSQL has a schema: the table is eventlog.events on both.
-- The character set is named because MariaDB before 11.6 takes latin1 if it is not.
CREATE DATABASE IF NOT EXISTS eventlog CHARACTER SET utf8mb4;

CREATE TABLE IF NOT EXISTS eventlog.events (
    id              UUID         NOT NULL PRIMARY KEY,
    namespace       VARCHAR(255) NOT NULL,
    -- Shared by all rows that one action committed together.
    action_id       UUID         NOT NULL,
    action_name     VARCHAR(255) NOT NULL,
    -- JSON is LONGTEXT with a json_valid check here: the text stays as the application wrote it.
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

    INDEX idx_events_action_id (action_id)
);
