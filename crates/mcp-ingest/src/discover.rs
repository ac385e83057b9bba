//! All tools of a server, page by page.

use serde_json::{Map, Value};
use tokio::time::Instant;

use crate::client::{McpClient, McpRequest};
use crate::endpoint::Endpoint;
use crate::error::{McpError, McpFailure};
use crate::exchange::Mode;

/// How many pages are read of one list.
const MAX_PAGES: usize = 1_000;
/// How long a list may be in all, in bytes.
const MAX_LIST: usize = 64 << 20;
/// How many tools one server may have.
pub const MAX_TOOLS: usize = 20_000;

impl McpClient {
    /// The tools of a server as it lists them.
    ///
    /// # Errors
    /// [`McpFailure`] when the list can't be read to its end, or has no end.
    pub async fn tools(&self, endpoint: &Endpoint, deadline: Instant) -> Result<Vec<Value>, McpFailure> {
        let broke = |words: &str| McpFailure::unsent(McpError::protocol(words));
        let (mut tools, mut bytes) = (Vec::new(), 0);
        let mut cursors: Vec<String> = Vec::new();
        let mut params = Map::new();
        for _ in 0..MAX_PAGES {
            let request = McpRequest {
                method: "tools/list",
                params: params.clone(),
                param_headers: Vec::new(),
                mode: Mode::Repeatable,
                deadline,
                progress: None,
            };
            let Value::Object(mut page) = self.request(endpoint, request).await?.result else {
                return Err(broke("the result of tools/list is no object"));
            };
            match page.shift_remove("tools") {
                Some(Value::Array(more)) => {
                    bytes += more.iter().map(|tool| tool.to_string().len()).sum::<usize>();
                    tools.extend(more.into_iter().map(|tool| endpoint.clean_value(tool)));
                }
                _ => return Err(broke("the result of tools/list has no tools")),
            }
            if tools.len() > MAX_TOOLS || bytes > MAX_LIST {
                return Err(broke("the list of tools is longer than 20000 tools or 64 MiB"));
            }
            match page.shift_remove("nextCursor") {
                Some(Value::String(cursor)) if !cursors.contains(&cursor) => {
                    params.insert("cursor".to_owned(), cursor.as_str().into());
                    cursors.push(cursor);
                }
                Some(Value::String(_)) => return Err(broke("tools/list gives the same cursor twice")),
                _ => return Ok(tools),
            }
        }
        Err(broke("tools/list has more than 1000 pages"))
    }
}
