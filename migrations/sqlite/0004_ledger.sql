-- The ledger: every call that may change something, or that waits for a person, is a row before it is a
-- request. Times are milliseconds since 1970, by the database's clock.

CREATE TABLE ledger (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    call_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    effect TEXT NOT NULL,
    state TEXT NOT NULL,
    -- Counts the events of the row.
    seq BIGINT NOT NULL,
    -- What was proposed. Secrets are references; hashes are SHA-256 in hexadecimal.
    arguments TEXT NOT NULL,
    arguments_hash TEXT NOT NULL,
    ctx TEXT NOT NULL,
    request TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    definition_hash TEXT NOT NULL,
    -- Until when a call that was sent may be sent again under the same key; null for never.
    resend_until BIGINT,
    -- The lease: who works on it, for the how-manieth time, until when.
    owner TEXT,
    epoch BIGINT NOT NULL,
    lease_until BIGINT,
    -- How often it was sent and may have been performed. A person's word that it was not sets it back.
    sends BIGINT NOT NULL DEFAULT 0,
    -- How it ended, and who moved it last, and why.
    outcome TEXT,
    actor TEXT NOT NULL,
    reason TEXT,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    UNIQUE (session, call_id)
);
-- What the keepers of the ledger look for. An index a state: a planner sees that it fits only when it is asked for in
-- the same words.
CREATE INDEX ledger_ready ON ledger (lease_until) WHERE state = 'ready';
CREATE INDEX ledger_claimed ON ledger (lease_until) WHERE state = 'claimed';
CREATE INDEX ledger_sent ON ledger (lease_until) WHERE state = 'sent';
-- What a new call may be the repetition of.
CREATE INDEX ledger_unsettled ON ledger (request_hash)
    WHERE state IN ('ready', 'claimed', 'sent', 'in_doubt', 'unknown');
CREATE INDEX ledger_in_doubt ON ledger (id) WHERE state = 'in_doubt';

-- Each change of state, once and for ever. The triggers write them, so none can be forgotten. A row begins as proposed, and
-- its first event says where that led.
CREATE TABLE ledger_events (
    ledger_id TEXT NOT NULL,
    seq BIGINT NOT NULL,
    from_state TEXT,
    to_state TEXT NOT NULL,
    epoch BIGINT NOT NULL,
    actor TEXT NOT NULL,
    reason TEXT,
    at BIGINT NOT NULL,
    PRIMARY KEY (ledger_id, seq)
) WITHOUT ROWID;

CREATE TRIGGER ledger_proposed AFTER INSERT ON ledger
BEGIN
    INSERT INTO ledger_events (ledger_id, seq, from_state, to_state, epoch, actor, reason, at)
    VALUES (NEW.id, NEW.seq, 'proposed', NEW.state, NEW.epoch, NEW.actor, NEW.reason, NEW.created_at);
END;

CREATE TRIGGER ledger_moved AFTER UPDATE OF state ON ledger WHEN OLD.state <> NEW.state
BEGIN
    INSERT INTO ledger_events (ledger_id, seq, from_state, to_state, epoch, actor, reason, at)
    VALUES (NEW.id, NEW.seq, OLD.state, NEW.state, NEW.epoch, NEW.actor, NEW.reason, NEW.updated_at);
END;

CREATE TRIGGER ledger_events_stay BEFORE UPDATE ON ledger_events
BEGIN
    SELECT RAISE(ABORT, 'an event of the ledger is never changed');
END;

-- What a person is asked about a call.
CREATE TABLE approvals (
    id TEXT PRIMARY KEY,
    ledger_id TEXT NOT NULL UNIQUE,
    kind TEXT NOT NULL,
    state TEXT NOT NULL,
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    arguments_hash TEXT NOT NULL,
    request_hash TEXT NOT NULL,
    why TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT NOT NULL,
    decided_at BIGINT,
    decided_by TEXT,
    reason TEXT,
    answer TEXT
);
CREATE INDEX approvals_open ON approvals (id) WHERE state = 'open';
CREATE INDEX approvals_open_of_agent ON approvals (agent, id) WHERE state = 'open';
CREATE INDEX approvals_expiring ON approvals (expires_at) WHERE state = 'open';
CREATE INDEX approvals_given ON approvals (session, tool, arguments_hash) WHERE state = 'approved';

-- Webhooks that are still to be told of an approval.
CREATE TABLE approval_notices (
    approval_id TEXT NOT NULL,
    webhook TEXT NOT NULL,
    tries BIGINT NOT NULL,
    next_at BIGINT NOT NULL,
    PRIMARY KEY (approval_id, webhook)
);
CREATE INDEX approval_notices_due ON approval_notices (next_at);
