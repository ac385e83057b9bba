//! The frame of the OpenAPI document; the addresses add themselves.

use http::StatusCode;
use utoipa::openapi::path::Operation;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, RefOr};

/// Completes what OpenAPI asks of each operation: an id of its own (`get_v1_tools_name`), and a description for
/// each response: the name of its status where nothing else is said.
pub(crate) fn complete_operations(document: &mut OpenApi) {
    for (path, item) in &mut document.paths.paths {
        let operations =
            [("get", &mut item.get), ("put", &mut item.put), ("post", &mut item.post), ("delete", &mut item.delete)];
        for (method, operation) in operations {
            if let Some(operation) = operation {
                operation.operation_id = Some(operation_id(method, path));
                describe_responses(operation);
            }
        }
    }
}

fn operation_id(method: &str, path: &str) -> String {
    let words = path.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

fn describe_responses(operation: &mut Operation) {
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response
            && response.description.is_empty()
        {
            let name = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
            let name = name.and_then(|status| status.canonical_reason());
            response.description = name.unwrap_or("An answer").to_owned();
        }
    }
}

pub(crate) fn base() -> OpenApi {
    let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("An API token")).build();
    OpenApiBuilder::new()
        .info(
            InfoBuilder::new()
                .title("Toolcrib")
                .version(env!("CARGO_PKG_VERSION"))
                .description(Some("Tools for LLM agents, served from rows. Errors are problem JSON (RFC 9457)."))
                .build(),
        )
        .components(Some(ComponentsBuilder::new().security_scheme("token", SecurityScheme::Http(bearer)).build()))
        .build()
}
