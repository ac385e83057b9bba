"""A FastMCP server whose tools have every construct of schemas in the wild. Each echoes what came."""

import enum
from typing import Annotated, Any, Literal

from fastmcp import Context, FastMCP
from fastmcp.exceptions import ToolError
from pydantic import BaseModel, ConfigDict, Field

mcp = FastMCP("constructs")


class Color(enum.Enum):
    red = "red"
    blue = "blue"


class Node(BaseModel):
    name: str
    color: Color = Color.red
    children: list["Node"] = []


class Circle(BaseModel):
    kind: Literal["circle"]
    radius: float


class Square(BaseModel):
    kind: Literal["square"]
    side: float
    label: str | None = None


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    camelCase: int
    dashed_name: str = Field(alias="dashed-name", default="x")
    vector: list[float] | None = Field(alias="$vectorSearch", default=None)


class Deep(BaseModel):
    rows: list["Deep2"]


class Deep2(BaseModel):
    rows: list["Deep3"]


class Deep3(BaseModel):
    cells: list[dict[str, int]]


@mcp.tool
def nullable(a: int | None, b: str | None = None, c: float | None = 1.5) -> dict:
    """Nullable, required and not"""
    return {"a": a, "b": b, "c": c}


@mcp.tool
def scalars(v: int | str, w: bool | str = "x", n: int | float = 1) -> dict:
    """Unions of scalars"""
    return {"v": v, "v_is": type(v).__name__, "w": w, "w_is": type(w).__name__, "n": n}


@mcp.tool
def tree(root: Node) -> dict:
    """A recursive model"""
    return root.model_dump(mode="json")


@mcp.tool
def shape(item: Annotated[Circle | Square, Field(discriminator="kind")]) -> dict:
    """A discriminated union"""
    return item.model_dump(mode="json")


@mcp.tool
def many(v: str | list[str], o: Circle | list[Circle] | None = None) -> dict:
    """One or many"""
    return {"v": v, "v_is": type(v).__name__, "o": o and (o.model_dump() if isinstance(o, Circle) else len(o))}


@mcp.tool
def pair(point: tuple[float, float], mixed: tuple[int, str] = (1, "x"), rest: tuple[int, ...] = ()) -> dict:
    """Tuples"""
    return {"point": list(point), "mixed": list(mixed), "rest": list(rest)}


@mcp.tool
def anything(value: Any, free: dict, table: dict[str, int] | None = None, items: list = []) -> dict:
    """Any value, free-form objects, a list of anything"""
    return {"value": value, "value_is": type(value).__name__, "free": free, "table": table, "items": items}


@mcp.tool
def closed(model: Closed) -> dict:
    """Names that not every provider takes"""
    return model.model_dump(mode="json", by_alias=True)


@mcp.tool
def bounded(n: Annotated[int, Field(gt=0, le=9, multiple_of=3)], s: Annotated[str, Field(pattern="^[a-z]+$")] = "a") -> dict:
    """Constraints"""
    return {"n": n, "s": s}


@mcp.tool
def deep(value: Deep) -> dict:
    """Lists of objects in lists of objects"""
    return value.model_dump()


@mcp.tool(name="dotted.tool-Name")
def dotted(x: int = 0) -> int:
    """Dots, dashes and capitals in the name"""
    return x


@mcp.tool
def fails() -> str:
    """Always fails"""
    raise ToolError("this tool fails on purpose")


@mcp.tool
async def slow(seconds: float, ctx: Context) -> str:
    """Reports progress while it sleeps"""
    import asyncio

    for step in range(4):
        await ctx.report_progress(step, 4)
        await asyncio.sleep(seconds / 4)
    return "rested"


calls = 0


@mcp.tool
def count() -> int:
    """How often it was called"""
    global calls
    calls += 1
    return calls
