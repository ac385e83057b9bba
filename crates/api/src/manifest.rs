//! Many tools at once, and trying a definition without writing it.

use axum::Json;
use axum::extract::State;
use serde::Serialize;
use serde_json::Value;
use toolcrib_definition::{Definition, Expanded, Manifest, Problems};
use utoipa::ToSchema;

use crate::auth::{Access, Principal};
use crate::body::{JsonBody, ManifestBody};
use crate::forecast::warnings_for;
use crate::problem::{ApiError, ProblemBody};
use crate::state::ApiState;

/// What an import did.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportBody {
    /// The version of the manifest format.
    version: u64,
    created: Vec<String>,
    updated: Vec<String>,
    unchanged: Vec<String>,
    /// The tools that were left out.
    errors: Vec<ImportError>,
    /// What will fail later.
    warnings: Vec<String>,
}

/// A tool that was left out of an import.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ImportError {
    /// The name as written.
    tool: String,
    /// Everything that is wrong, in one line.
    message: String,
    /// Everything that is wrong, each with a pointer into the manifest.
    #[schema(value_type = Vec<Object>)]
    problems: Problems,
}

/// What a definition or a manifest would come to.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ValidationBody {
    /// Whether it could be written as it is.
    valid: bool,
    /// Everything that is wrong.
    #[schema(value_type = Vec<Object>)]
    problems: Problems,
    /// What will fail later.
    warnings: Vec<String>,
    /// The stored form of a sound definition.
    #[schema(value_type = Option<Object>)]
    normalized: Option<Value>,
    /// The tools of a manifest that are sound.
    #[serde(skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<String>>,
    /// The tools of a manifest that are not.
    #[serde(skip_serializing_if = "Option::is_none")]
    errors: Option<Vec<ImportError>>,
}

/// Import a manifest. Importing it twice changes nothing
#[utoipa::path(post, path = "/v1/tools/manifest", tag = "tools", security(("token" = [])),
    request_body(content = Object, description = "A manifest: {version, defaults, tools}"),
    responses((status = 200, body = ImportBody),
        (status = 422, body = ProblemBody, description = "The structure is faulty; nothing was taken")))]
pub(crate) async fn import(
    State(state): State<ApiState>,
    principal: Principal,
    ManifestBody(body): ManifestBody,
) -> Result<Json<ImportBody>, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let expanded = expand(&state, &body)?;
    let mut errors: Vec<ImportError> = errors_of(&expanded);
    let mut tools = expanded.tools;
    tools.retain(|tool| {
        let shadows = state.registry().is_code(tool.name.as_str());
        if shadows {
            let tool = tool.name.to_string();
            let message = format!("the name {tool} belongs to a tool compiled into the program [tool.shadows_code]");
            errors.push(ImportError { tool, message, problems: Problems::default() });
        }
        !shadows
    });
    let mut warnings = expanded.warnings;
    warnings.extend(tools.iter().flat_map(|tool| warnings_for(&state, tool)));
    let imported = state.registry().put_tools(&tools, &principal.name).await?;
    Ok(Json(ImportBody {
        version: expanded.version,
        created: imported.created,
        updated: imported.updated,
        unchanged: imported.unchanged,
        errors,
        warnings,
    }))
}

/// Check a definition, or a manifest, without writing it
#[utoipa::path(post, path = "/v1/tools/validate", tag = "tools", security(("token" = [])),
    request_body(content = Object, description = "A definition, or a manifest"),
    responses((status = 200, body = ValidationBody)))]
pub(crate) async fn validate(
    State(state): State<ApiState>,
    principal: Principal,
    JsonBody(body): JsonBody,
) -> Result<Json<ValidationBody>, ApiError> {
    principal.may(Access::ReadCatalog)?;
    if body.get("tools").is_some() || body.get("defaults").is_some() {
        return Ok(Json(match expand(&state, &body) {
            Ok(expanded) => ValidationBody {
                valid: expanded.errors.is_empty(),
                problems: Problems::default(),
                warnings: expanded.tools.iter().flat_map(|tool| warnings_for(&state, tool)).collect(),
                normalized: None,
                tools: Some(expanded.tools.iter().map(|tool| tool.name.to_string()).collect()),
                errors: Some(errors_of(&expanded)),
            },
            Err(ApiError::Manifest(error)) => invalid(error.0),
            Err(other) => return Err(other),
        }));
    }
    Ok(Json(match Definition::from_value(&body) {
        Ok(definition) => ValidationBody {
            valid: !state.registry().is_code(definition.name.as_str()),
            problems: Problems::default(),
            warnings: warnings_for(&state, &definition),
            normalized: Some(definition.to_json()),
            tools: None,
            errors: None,
        },
        Err(problems) => invalid(problems),
    }))
}

fn invalid(problems: Problems) -> ValidationBody {
    ValidationBody { valid: false, problems, warnings: Vec::new(), normalized: None, tools: None, errors: None }
}

fn expand(state: &ApiState, body: &Value) -> Result<Expanded, ApiError> {
    let manifest = Manifest::from_value(body).map_err(ApiError::Manifest)?;
    let secrets = state.secrets();
    let environment = |name: &str| (state.environment)(name);
    Ok(manifest.expand(&environment, &|name| secrets.secret(name).is_some()))
}

fn errors_of(expanded: &Expanded) -> Vec<ImportError> {
    let error = |error: &toolcrib_definition::ToolError| ImportError {
        tool: error.tool.clone(),
        message: error.problems.to_string(),
        problems: error.problems.clone(),
    };
    expanded.errors.iter().map(error).collect()
}
