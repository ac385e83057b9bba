-- The same two indexes, with what is counted of calls, so that counting reads no row.
DROP INDEX traces_by_start;
CREATE INDEX traces_by_start ON traces (started_at, id, status, blocked);
DROP INDEX traces_by_tool;
CREATE INDEX traces_by_tool ON traces (tool, started_at, id, status);
