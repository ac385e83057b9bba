"""Published MCP servers that run offline: how each is started, and a call of each that succeeds."""

import subprocess
from pathlib import Path

from conftest import BIN, BIN1, NODE


def bridged(command):
    """A server that speaks stdio, behind a published bridge to streamable HTTP."""
    gateway = [str(NODE / ".bin" / "supergateway"), "--stdio", command, "--outputTransport", "streamableHttp"]
    return lambda port: [*gateway, "--stateful", "--port", str(port), "--logLevel", "none"]


def prepare(folder):
    """Files that some servers work on."""
    files = Path(folder) / "files"
    files.mkdir(exist_ok=True)
    (files / "a.txt").write_text("first\nsecond\n")
    (Path(folder) / "eslint.config.mjs").write_text("export default [];\n")
    (Path(folder) / "x.js").write_text("const x = 1;\n")
    repo = Path(folder) / "repo"
    subprocess.run(["git", "init", "-q", str(repo)], check=True)
    return files, repo


# name, command for a port, environment, tool to call, arguments, a text of the answer
def servers(folder):
    files, repo = prepare(folder)
    return [
        ("filesystem", bridged(f"mcp-server-filesystem {files}"), {}, "filesystem__read_text_file",
         {"path": str(files / "a.txt")}, "first"),
        ("memory", bridged("mcp-server-memory"), {"MEMORY_FILE_PATH": str(Path(folder) / "m.jsonl")},
         "memory__read_graph", {}, "entities"),
        ("thinking", bridged("mcp-server-sequential-thinking"), {}, "thinking__sequentialthinking",
         {"thought": "t", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1}, "thoughtNumber"),
        ("calc", bridged("calc-mcp"), {}, "calc__math", {"expression": "2^10"}, "1024"),
        ("timemcp", bridged("time-mcp"), {}, "timemcp__days_in_month", {"date": "2024-02-01"}, "29"),
        ("eslint", bridged(f"node {NODE / '@eslint' / 'mcp' / 'src' / 'mcp-cli.js'}"), {}, "eslint__lint_files",
         {"filePaths": [str(Path(folder) / "x.js")]}, "x.js"),
        ("tasks", bridged("mcp-taskmanager"), {"TASK_MANAGER_FILE_PATH": str(Path(folder) / "t.json")},
         "tasks__list_requests", {}, "requests"),
        ("graph", bridged(f"mcp-knowledge-graph --memory-path {Path(folder) / 'kg.jsonl'}"), {},
         "graph__read_graph", {}, "entities"),
        ("chart", lambda port: ["mcp-server-chart", "--transport", "streamable", "--host", "127.0.0.1", "--port", str(port)],
         {}, None, {}, ""),
        ("playwright", lambda port: ["playwright-mcp", "--port", str(port), "--host", "127.0.0.1", "--headless",
                                     "--allowed-hosts", "*"], {}, None, {}, ""),
        ("clock", bridged(f"{BIN / 'mcp-server-time'} --local-timezone=UTC"), {}, "clock__get_current_time",
         {"timezone": "UTC"}, "UTC"),
        ("git", bridged(f"{BIN / 'mcp-server-git'} --repository {repo}"), {}, "git__git_status",
         {"repo_path": str(repo)}, "branch"),
        ("duckdb", lambda port: [str(BIN / "mcp-server-motherduck"), "--transport", "http", "--host", "127.0.0.1",
                                 "--port", str(port), "--db-path", ":memory:", "--read-write"], {},
         "duckdb__execute_query", {"sql": "select 42 as x"}, "42"),
        ("excel", lambda port: [str(BIN / "excel-mcp-server"), "streamable-http", "--host", "127.0.0.1", "--port",
                                str(port), "--allow-dir", str(files)], {}, "excel__create_workbook",
         {"path": "b.xlsx", "overwrite": True}, "b.xlsx"),
        ("sqlite", bridged(f"{BIN1 / 'mcp-server-sqlite'} --db-path {Path(folder) / 't.db'}"), {},
         "sqlite__read_query", {"query": "select 1 as a"}, "1"),
        ("calculator", bridged(f"{BIN1 / 'mcp-server-calculator'}"), {}, "calculator__calculate",
         {"expression": "2+3*4"}, "14"),
        ("editor", bridged(f"{BIN1 / 'mcp-text-editor'}"), {}, "editor__get_text_file_contents",
         {"files": [{"file_path": str(files / "a.txt"), "ranges": [{"start": 1}]}]}, "first"),
    ]
