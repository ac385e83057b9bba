-- What calls leave behind: traces, and the ids that a session may cite.

CREATE TABLE traces (
    id TEXT PRIMARY KEY,
    session TEXT NOT NULL,
    agent TEXT NOT NULL,
    tool TEXT NOT NULL,
    call_id TEXT NOT NULL,
    status TEXT NOT NULL,
    blocked TEXT,
    started_at BIGINT NOT NULL,
    duration_ms BIGINT NOT NULL,
    document TEXT NOT NULL
);
CREATE INDEX traces_by_session ON traces (session, started_at, id);
CREATE INDEX traces_by_start ON traces (started_at, id);
CREATE INDEX traces_by_tool ON traces (tool, started_at, id);
CREATE INDEX traces_blocked ON traces (started_at) WHERE blocked IS NOT NULL;

CREATE TABLE evidence (
    session TEXT NOT NULL,
    kind TEXT NOT NULL,
    evidence_id TEXT NOT NULL,
    agent TEXT NOT NULL,
    seen_at BIGINT NOT NULL,
    PRIMARY KEY (session, kind, evidence_id)
);
CREATE INDEX evidence_by_age ON evidence (session, seen_at);
