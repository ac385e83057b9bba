"""One tool over a shared HTTP client."""

import httpx
from fastmcp import FastMCP

client = httpx.AsyncClient(limits=httpx.Limits(max_connections=None, max_keepalive_connections=None))
mcp = FastMCP("peer")


@mcp.tool(output_schema=None)
async def fetch(query: str, limit: int) -> str:
    """Fetch one KiB"""
    response = await client.get("http://127.0.0.1:18080/x", params={"q": query})
    response.raise_for_status()
    return response.text


app = mcp.http_app(path="/mcp", stateless_http=True, json_response=True)
