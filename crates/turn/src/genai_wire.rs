//! What is asked and answered, in the words of the genai crate.

use genai::chat::{
    ChatMessage, ChatRequest, ChatStreamEvent, ContentPart, MessageContent, StopReason, StreamEnd, Tool, ToolCall,
    ToolResponse,
};
use serde_json::Value;

use crate::frame_guard::FrameGuard;
use crate::genai_errors::model_error;
use crate::message::{Message, ModelCall};
use crate::model::{ModelError, ModelEvent, ModelRequest, Usage};

pub(crate) fn chat_of(request: &ModelRequest) -> ChatRequest {
    let messages = request.messages.iter().flat_map(messages_of).collect();
    let tool = |offer: &crate::model::ToolOffer| {
        Tool::new(offer.name.as_str())
            .with_description(offer.description.as_str())
            .with_schema(offer.parameters.clone())
    };
    let mut chat = ChatRequest::new(messages);
    if !request.system.is_empty() {
        chat = chat.with_system(request.system.as_str());
    }
    if !request.tools.is_empty() {
        chat = chat.with_tools(request.tools.iter().map(tool).collect::<Vec<_>>());
    }
    chat
}

fn messages_of(message: &Message) -> Vec<ChatMessage> {
    match message {
        Message::User { text } => vec![ChatMessage::user(text.as_str())],
        Message::Assistant { text, calls } => {
            let mut parts = Vec::with_capacity(calls.len() + 1);
            if !text.is_empty() {
                parts.push(ContentPart::Text(text.clone()));
            }
            parts.extend(calls.iter().map(|call| {
                ContentPart::ToolCall(ToolCall {
                    call_id: call.id.clone(),
                    fn_name: call.tool.clone(),
                    fn_arguments: as_object(&call.arguments),
                    thought_signatures: Some(call.signatures.clone()).filter(|signatures| !signatures.is_empty()),
                })
            }));
            vec![ChatMessage::assistant(MessageContent::from_parts(parts))]
        }
        Message::Tool { results } => {
            let response = |result: &crate::message::CallResult| {
                ToolResponse::new(result.id.as_str(), result.text.as_str()).with_fn_name(result.tool.as_str())
            };
            vec![ChatMessage::from(results.iter().map(response).collect::<Vec<_>>())]
        }
    }
}

/// What was no object when the model wrote it goes back as one: not every wire can carry anything else.
fn as_object(arguments: &Value) -> Value {
    match arguments {
        Value::Object(_) => arguments.clone(),
        other => serde_json::json!({ "unreadable": other }),
    }
}

pub(crate) fn event_of(
    event: Result<ChatStreamEvent, genai::Error>,
    frames: &FrameGuard,
) -> Option<Result<ModelEvent, ModelError>> {
    match event {
        Ok(ChatStreamEvent::Chunk(chunk)) if chunk.content.is_empty() => None,
        Ok(ChatStreamEvent::Chunk(chunk)) => Some(Ok(ModelEvent::Text(chunk.content))),
        Ok(ChatStreamEvent::End(end)) => Some(end_of(end, frames)),
        Ok(_) => None,
        Err(error) => Some(Err(model_error(&error))),
    }
}

fn end_of(end: StreamEnd, frames: &FrameGuard) -> Result<ModelEvent, ModelError> {
    // A connection that closes too early ends the stream too, but no provider said why.
    let Some(stop) = &end.captured_stop_reason else {
        return Err(ModelError::BrokenOff { reason: "the stream ended without an end of the answer".to_owned() });
    };
    let cut = matches!(stop, StopReason::MaxTokens(_));
    let count = |tokens: Option<i32>| tokens.and_then(|tokens| u64::try_from(tokens).ok()).unwrap_or_default();
    let usage = end.captured_usage.as_ref().map_or_else(Usage::default, |usage| Usage {
        input_tokens: count(usage.prompt_tokens),
        cached_tokens: count(usage.prompt_tokens_details.as_ref().and_then(|details| details.cached_tokens)),
        output_tokens: count(usage.completion_tokens),
    });
    let call = |call: ToolCall| ModelCall {
        id: call.call_id,
        tool: call.fn_name,
        arguments: match call.fn_arguments {
            // No arguments at all are an empty object.
            Value::Null => Value::Object(serde_json::Map::new()),
            Value::String(text) if text.trim().is_empty() => Value::Object(serde_json::Map::new()),
            other => other,
        },
        signatures: call.thought_signatures.unwrap_or_default(),
        signed_by: None,
    };
    let calls = end.captured_into_tool_calls().unwrap_or_default().into_iter().enumerate();
    // Copies that fill a gap are no calls.
    let calls = calls.filter(|(index, _)| frames.named(*index)).map(|(_, named)| call(named)).collect();
    Ok(ModelEvent::End { calls, usage, cut })
}
