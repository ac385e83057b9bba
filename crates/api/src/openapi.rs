//! The frame of the OpenAPI document; the addresses add themselves.

use http::StatusCode;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder, RefOr};

/// Every response has a description, as OpenAPI asks: the name of its status where nothing else is said.
pub(crate) fn describe_responses(document: &mut OpenApi) {
    for item in document.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        for (status, response) in
            operations.into_iter().flatten().flat_map(|operation| &mut operation.responses.responses)
        {
            if let RefOr::T(response) = response
                && response.description.is_empty()
            {
                let name = status.parse().ok().and_then(|code| StatusCode::from_u16(code).ok());
                let name = name.and_then(|status| status.canonical_reason());
                response.description = name.unwrap_or("An answer").to_owned();
            }
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
