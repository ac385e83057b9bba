-- Skills: playbooks that agents load. The scope is empty for a shared skill, else the id of the agent whose own it is.
-- Times are milliseconds since 1970.

-- A deleted skill stays as a row without a document, so that other processes learn of it.
CREATE TABLE skills (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    document TEXT,
    version BIGINT NOT NULL,
    revision BIGINT NOT NULL,
    -- Who wrote it last; a skill that only a disk root ever wrote follows that root.
    actor TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (scope, name)
);
CREATE INDEX skills_by_revision ON skills (revision);

CREATE TABLE skill_versions (
    scope TEXT NOT NULL,
    name TEXT NOT NULL,
    version BIGINT NOT NULL,
    document TEXT NOT NULL,
    actor TEXT NOT NULL,
    created_at BIGINT NOT NULL,
    PRIMARY KEY (scope, name, version)
);
