//! The frame of the OpenAPI document; the addresses add themselves.

use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{ComponentsBuilder, InfoBuilder, OpenApi, OpenApiBuilder};

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
