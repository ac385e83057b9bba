"""The tool lists parse as the providers' own packages want them."""

import json

import anthropic.types
import openai.types.chat
import openai.types.responses
import pytest
from openapi_spec_validator import validate
from pydantic import TypeAdapter


def listed(server, format):
    answer = server.http.get("/v1/agents/all/tools", params={"format": format}).json()
    assert len(answer["tools"]) >= 25 or format == "gemini"
    return answer["tools"]


def test_openai_chat(tools):
    adapter = TypeAdapter(list[openai.types.chat.ChatCompletionToolParam])
    parsed = adapter.validate_python(listed(tools, "openai"))
    assert {tool["function"]["name"] for tool in parsed} >= {"echo_get", "list_products"}


def test_openai_responses(tools):
    tool = TypeAdapter(openai.types.responses.FunctionTool)
    for given in listed(tools, "openai-responses"):
        parsed = tool.validate_python(given)
        assert parsed.strict is False and parsed.parameters["type"] == "object"


def test_anthropic(tools):
    adapter = TypeAdapter(list[anthropic.types.ToolParam])
    parsed = adapter.validate_python(listed(tools, "anthropic"))
    assert {tool["name"] for tool in parsed} >= {"echo_get", "list_products"}


def test_the_calls_of_both_providers_go_back_in(tools):
    call = openai.types.chat.ChatCompletionMessageToolCall.model_validate(
        {"id": "call_abc", "type": "function", "function": {"name": "find_product", "arguments": json.dumps({"sku": "K3"})}}
    )
    outcome = tools.call("all", call.function.name, call.function.arguments, call_id=call.id)
    assert (outcome["call_id"], outcome["result"]) == ("call_abc", "Kettle 3")
    block = anthropic.types.ToolUseBlock.model_validate(
        {"type": "tool_use", "id": "toolu_1", "name": "find_product", "input": {"sku": "K4"}, "caller": {"type": "direct"}}
    )
    assert tools.call("all", block.name, block.input, call_id=block.id)["result"] == "Kettle 4"


@pytest.mark.parametrize("format", ["gemini", "bedrock", "mcp"])
def test_other_formats(tools, format):
    given = listed(tools, format)
    names = {
        "gemini": lambda: {tool["name"] for tool in given[0]["functionDeclarations"]},
        "bedrock": lambda: {tool["toolSpec"]["name"] for tool in given},
        "mcp": lambda: {tool["name"] for tool in given},
    }[format]()
    assert names >= {"echo_get", "list_products"}


def test_the_openapi_document_is_valid(tools):
    validate(tools.http.get("/openapi.json").json())
