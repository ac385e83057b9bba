-- MCP servers whose tools are adopted, with what the last look at each found. Times are milliseconds
-- since 1970.

CREATE TABLE mcp_servers (
    name TEXT PRIMARY KEY,
    server TEXT NOT NULL,
    state TEXT NOT NULL,
    revision BIGINT NOT NULL,
    created_at BIGINT NOT NULL,
    updated_at BIGINT NOT NULL
);
