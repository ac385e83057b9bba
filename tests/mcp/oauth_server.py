"""A FastMCP server behind its own OAuth server, which agrees to everything: oauth_server.py PORT"""

import sys

from fastmcp import FastMCP
from fastmcp.server.auth.auth import ClientRegistrationOptions
from fastmcp.server.auth.providers.in_memory import InMemoryOAuthProvider

port = int(sys.argv[1])
auth = InMemoryOAuthProvider(
    base_url=f"http://127.0.0.1:{port}",
    client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["read"]),
    required_scopes=["read"],
)
mcp = FastMCP("guarded", auth=auth)


@mcp.tool
def guarded() -> str:
    """Behind OAuth"""
    return "let in"


mcp.run(transport="http", host="127.0.0.1", port=port, show_banner=False)
