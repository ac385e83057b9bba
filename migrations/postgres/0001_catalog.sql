-- The catalog: tools with their versions, agents, tokens. Times are milliseconds since 1970.

-- One counter for everything the running catalog is made of. A write raises it in its own
-- transaction and stamps its rows, so a reader asks for the rows above the last number it saw.
CREATE TABLE catalog (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    revision BIGINT NOT NULL
);
INSERT INTO catalog (id, revision) VALUES (1, 0);

-- A deleted tool stays as a row without a definition, so that other processes learn of it.
CREATE TABLE tools (
    name TEXT PRIMARY KEY,
    definition TEXT,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX tools_by_revision ON tools (revision);

CREATE TABLE tool_versions (
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    definition TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (name, version)
);

CREATE TABLE agents (
    id TEXT PRIMARY KEY,
    profile TEXT,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
CREATE INDEX agents_by_revision ON agents (revision);

-- The token itself is not here: only its SHA-256. A revoked token stays as a row.
CREATE TABLE tokens (
    id TEXT PRIMARY KEY,
    name TEXT NOT NULL,
    role TEXT NOT NULL,
    agents TEXT,
    hash TEXT NOT NULL UNIQUE,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    expires_at BIGINT,
    revoked_at BIGINT
);
CREATE INDEX tokens_by_revision ON tokens (revision);
