-- The outbox table on SQLite: Ekbatan's 13 columns behind a number that gives their order.
-- PRAGMA journal_mode = WAL is advised: without it the reader and the application wait for each other.

CREATE TABLE IF NOT EXISTS events (
    -- SQLite has no log to read, so Headwater follows this number. AUTOINCREMENT is what makes that safe: without it SQLite
    -- gives the numbers of deleted rows away again, and new rows would be taken for old ones. Leave it to SQLite: a row
    -- inserted with a number of the application's choice is never seen if the number lies behind.
    seq             INTEGER      PRIMARY KEY AUTOINCREMENT,
    -- Lower-case text with hyphens.
    id              TEXT         NOT NULL UNIQUE,
    namespace       TEXT         NOT NULL,
    -- Shared by all rows that one action committed together.
    action_id       TEXT         NOT NULL,
    action_name     TEXT         NOT NULL,
    -- SQLite has no JSON type: the check keeps out what could never be published.
    action_params   TEXT         NOT NULL CHECK (json_valid(action_params)),
    -- SQLite has no date type: UTC text with six digits of fraction, such as 2026-06-11 10:22:47.000123. The word TIMESTAMP
    -- is how Headwater knows these columns; the check refuses numbers and other forms while they are still easy to mend.
    started_date    TIMESTAMP    NOT NULL CHECK (started_date LIKE '____-__-__ __:__:__.______'),
    completion_date TIMESTAMP    NOT NULL CHECK (completion_date LIKE '____-__-__ __:__:__.______'),
    model_id        TEXT,
    model_type      TEXT,
    -- NULL marks a sentinel: an action without events still leaves one row, and it is never published.
    event_type      TEXT,
    -- IS NULL, because json_valid(NULL) is 0 in older versions of SQLite.
    payload         TEXT         CHECK (payload IS NULL OR json_valid(payload)),
    event_date      TIMESTAMP    NOT NULL CHECK (event_date LIKE '____-__-__ __:__:__.______'),
    -- Without a default: the application decides. Headwater never writes it.
    delivered       BOOLEAN      NOT NULL CHECK (delivered IN (FALSE, TRUE))
);

CREATE INDEX IF NOT EXISTS idx_events_action_id ON events (action_id);
