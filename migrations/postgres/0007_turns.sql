-- Turns: one message to an agent, to its answer. A turn is a row before the model is asked. Times are milliseconds since
-- 1970, by the database's clock.

CREATE TABLE turns (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    session TEXT NOT NULL,
    -- The turn that spawned it, if any.
    parent TEXT,
    state TEXT NOT NULL,
    -- Its place among all turns of the session, in the order in which they came.
    seq BIGINT NOT NULL,
    -- The message, the context and the agent's snapshot, as JSON.
    input TEXT NOT NULL,
    -- Where it stands, as JSON; null before the first checkpoint.
    checkpoint TEXT,
    -- How it ended, as JSON.
    outcome TEXT,
    -- What later turns of the session read of it, as JSON, and its place among them.
    messages TEXT,
    place BIGINT,
    -- Whether somebody asked for its end.
    cancelled BIGINT NOT NULL DEFAULT 0,
    -- The lease: who works on it, for the how-manieth time, until when.
    owner TEXT,
    epoch BIGINT NOT NULL,
    lease_until BIGINT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
-- One turn of a session runs or waits for a person at a time; the others queue.
CREATE UNIQUE INDEX turns_one_at_a_time ON turns (agent, session) WHERE state IN ('running', 'parked');
CREATE INDEX turns_queued ON turns (agent, session, seq) WHERE state = 'queued';
CREATE INDEX turns_running ON turns (lease_until) WHERE state = 'running';
CREATE INDEX turns_parked ON turns (id) WHERE state = 'parked';
CREATE INDEX turns_of_session ON turns (agent, session, seq);
CREATE INDEX turns_told ON turns (agent, session, place);
CREATE INDEX turns_of_parent ON turns (parent) WHERE parent IS NOT NULL;
CREATE INDEX turns_ended ON turns (updated_at) WHERE state IN ('completed', 'failed', 'cancelled');

-- The calls of the ledger that a parked turn waits for.
CREATE TABLE turn_waits (
    turn_id TEXT NOT NULL,
    ledger_id TEXT NOT NULL,
    PRIMARY KEY (turn_id, ledger_id)
);
