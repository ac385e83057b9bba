//! Many tools at once, and trying a definition without writing it.

use axum::Json;
use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use toolcrib_definition::{Definition, Manifest, Problem, ProblemCode, Problems};
use utoipa::{IntoParams, ToSchema};

use crate::auth::{Access, Principal};
use crate::body::ManifestBody;
use crate::extract::Query;
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

/// How a manifest is imported.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub(crate) struct ImportQuery {
    /// `later`: a tool whose secret is not configured lands with a warning, and its calls fail until it is. Otherwise it
    /// is left out
    secrets: Option<String>,
}

/// Import a manifest. Importing it twice changes nothing
#[utoipa::path(post, path = "/v1/tools/manifest", tag = "tools", params(ImportQuery), security(("token" = [])),
    request_body(content = Object, description = "A manifest: {version, defaults, tools}"),
    responses((status = 200, body = ImportBody),
        (status = 422, body = ProblemBody, description = "The structure is faulty; nothing was taken")))]
pub(crate) async fn import(
    State(state): State<ApiState>,
    principal: Principal,
    Query(query): Query<ImportQuery>,
    ManifestBody(body): ManifestBody,
) -> Result<Json<ImportBody>, ApiError> {
    principal.may(Access::WriteCatalog)?;
    let secrets_now = match query.secrets.as_deref() {
        None | Some("now") => true,
        Some("later") => false,
        Some(_) => return Err(ApiError::Request("secrets is now or later".to_owned())),
    };
    let Checked { version, tools, errors, warnings } = check(&state, body, true, secrets_now).await?;
    let imported = state.registry().put_tools(&tools, &principal.name).await?;
    Ok(Json(ImportBody {
        version,
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
    ManifestBody(body): ManifestBody,
) -> Result<Json<ValidationBody>, ApiError> {
    principal.may(Access::ReadCatalog)?;
    if body.get("tools").is_some() || body.get("defaults").is_some() {
        // What a manifest reads of the environment may stand in a message, so who may not write gets none.
        let may_read_environment = principal.may(Access::WriteCatalog).is_ok();
        return Ok(Json(match check(&state, body, may_read_environment, true).await {
            Ok(checked) => ValidationBody {
                valid: checked.errors.is_empty(),
                problems: Problems::default(),
                warnings: checked.warnings,
                normalized: None,
                tools: Some(checked.tools.iter().map(|tool| tool.name.to_string()).collect()),
                errors: Some(checked.errors),
            },
            Err(ApiError::Manifest(error)) => invalid(error.0),
            Err(other) => return Err(other),
        }));
    }
    Ok(Json(match Definition::from_value(&body) {
        Ok(definition) if state.registry().is_code(definition.name.as_str()) => invalid(shadows("/name", &definition)),
        Ok(definition) => ValidationBody {
            valid: true,
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

fn shadows(pointer: &str, definition: &Definition) -> Problems {
    let message = format!("the name {} belongs to a tool compiled into the program; choose another", definition.name);
    Problems::from_iter([Problem { pointer: pointer.to_owned(), code: ProblemCode::ShadowsCode, message }])
}

/// A manifest against everything that an import asks.
struct Checked {
    version: u64,
    tools: Vec<Definition>,
    errors: Vec<ImportError>,
    warnings: Vec<String>,
}

/// Checks a manifest, which may be large, away from the threads that serve others.
async fn check(state: &ApiState, body: Value, with_environment: bool, secrets_now: bool) -> Result<Checked, ApiError> {
    let state = state.clone();
    tokio::task::spawn_blocking(move || {
        let manifest = Manifest::from_value(&body).map_err(ApiError::Manifest)?;
        let secrets = state.secrets();
        let environment = |name: &str| (state.environment)(name).filter(|_| with_environment);
        let expanded = manifest.expand(&environment, &|name| !secrets_now || secrets.secret(name).is_some());
        let mut errors: Vec<ImportError> = expanded.errors.into_iter().map(|e| left_out(e.tool, e.problems)).collect();
        let (shadowing, tools): (Vec<_>, Vec<_>) =
            expanded.tools.into_iter().partition(|tool| state.registry().is_code(tool.name.as_str()));
        errors.extend(shadowing.iter().map(|tool| left_out(tool.name.to_string(), shadows("/tools", tool))));
        let mut warnings = expanded.warnings;
        warnings.extend(tools.iter().flat_map(|tool| warnings_for(&state, tool)));
        Ok(Checked { version: expanded.version, tools, errors, warnings })
    })
    .await
    .map_err(|_| ApiError::Internal)?
}

fn left_out(tool: String, problems: Problems) -> ImportError {
    ImportError { tool, message: problems.to_string(), problems }
}
