//! What a call would send, before it is sent.

use serde::Serialize;
use serde_json::Value;
use toolcrib_definition::{Approval, ArgumentError, Ctx, Definition, RenderError, RenderInput, Secrets};
use toolcrib_egress::Policy;

use crate::pipeline::read_arguments;

/// The exact request of a call, with its secrets masked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Preview {
    /// The method.
    pub method: String,
    /// The whole URL.
    pub url: String,
    /// The headers in the order of the definition.
    pub headers: Vec<PreviewHeader>,
    /// The body.
    pub body: Option<String>,
    /// Whether the tool's approval rule stops the call before it is sent.
    pub needs_approval: bool,
    /// What the egress policy says of the URL before its host is resolved; none when it allows it.
    pub blocked: Option<String>,
}

/// A header of a [`Preview`].
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PreviewHeader {
    /// The name.
    pub name: String,
    /// The value, with `***` in the place of each secret.
    pub value: String,
}

/// Why a call would send nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PreviewError {
    /// The arguments are no object, nor the text of one.
    #[error("{0}")]
    Read(String),
    /// The schema does not allow the arguments.
    #[error(transparent)]
    Arguments(#[from] ArgumentError),
    /// A value can't stand in its place, or a secret is not configured.
    #[error(transparent)]
    Render(#[from] RenderError),
}

impl Preview {
    /// Checks and renders a call by the same code that sends it.
    ///
    /// # Errors
    /// [`PreviewError`] as the model would read it.
    pub fn of(
        definition: &Definition,
        arguments: Value,
        ctx: &Ctx,
        secrets: &dyn Secrets,
        policy: &Policy,
    ) -> Result<Self, PreviewError> {
        let arguments = read_arguments(arguments).map_err(PreviewError::Read)?;
        definition.parameters.check(&arguments)?;
        let call_id = "call_preview";
        let input =
            RenderInput { arguments: &arguments, ctx, call_id, key: call_id, secrets, path_param: policy.path_param };
        let request = definition.render(input)?;
        let headers = request.headers.iter();
        Ok(Self {
            method: request.method.to_string(),
            headers: headers.map(|h| PreviewHeader { name: h.name.clone(), value: h.masked.clone() }).collect(),
            needs_approval: definition.approval != Approval::Never,
            blocked: policy.check_url(&request.url).err().map(|blocked| blocked.to_string()),
            url: request.url,
            body: request.body,
        })
    }
}
