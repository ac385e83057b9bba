//! Following what MCP servers tell of their tools: a change leads to a new ingestion.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::Instant;
use toolcrib_mcp_ingest::{McpError, McpServer};

use crate::ingestion::{endpoint_of, ingest};
use crate::mcp_servers::server_of;
use crate::state::ApiState;

/// How long after the first word of a change it is looked at, so that a burst is one look.
const SETTLE: Duration = Duration::from_millis(500);
/// The pause after a look; what changes meanwhile is looked at after it.
const PAUSE: Duration = Duration::from_secs(2);
/// How often the rows are compared with what is followed.
const EVERY: Duration = Duration::from_secs(5);
/// How long a stream is followed before it is opened anew.
const STREAM_LIFE: Duration = Duration::from_secs(3_600);
/// The wait before a stream that broke is opened again, and before one that is refused is tried again.
const AGAIN: Duration = Duration::from_secs(10);
const REFUSED: Duration = Duration::from_secs(600);

/// Servers that are being looked at, and whether they said meanwhile that more changed.
type Looks = Arc<Mutex<HashMap<String, bool>>>;

impl ApiState {
    /// Follows every enabled MCP server until shutdown.
    pub async fn follow_mcp_servers(self) {
        let mut changes = self.mcp.changes();
        let mut tasks = JoinSet::new();
        let mut followed: HashMap<String, (i64, AbortHandle)> = HashMap::new();
        let looks = Looks::default();
        let mut compare = tokio::time::interval(EVERY);
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                _ = compare.tick() => self.compare(&mut followed, &mut tasks).await,
                Some(_) = tasks.join_next() => {}
                changed = changes.recv() => {
                    let mut names = BTreeSet::new();
                    match changed {
                        Ok(name) => drop(names.insert(name)),
                        // Who said what is not known any more, so all are looked at.
                        Err(RecvError::Lagged(_)) => names.extend(followed.keys().cloned()),
                        Err(RecvError::Closed) => return,
                    }
                    tokio::time::sleep(SETTLE).await;
                    loop {
                        match changes.try_recv() {
                            Ok(name) => drop(names.insert(name)),
                            Err(TryRecvError::Lagged(_)) => names.extend(followed.keys().cloned()),
                            Err(TryRecvError::Empty | TryRecvError::Closed) => break,
                        }
                    }
                    for name in names {
                        // One look is under way at a time, and is made again when more was said meanwhile.
                        let mut under_way = looks.lock().await;
                        if under_way.insert(name.clone(), true).is_none() {
                            let (state, looks) = (self.clone(), Arc::clone(&looks));
                            tasks.spawn(async move { state.take_over(name, &looks).await });
                        }
                    }
                }
            }
        }
    }

    /// Begins to follow new and changed servers, and ends what is no more.
    async fn compare(&self, followed: &mut HashMap<String, (i64, AbortHandle)>, tasks: &mut JoinSet<()>) {
        let rows = match self.registry().store().mcp_servers().await {
            Ok(rows) => rows,
            Err(error) => {
                tracing::warn!(error = %error, reason = error.reason(), "the MCP servers can't be read");
                return;
            }
        };
        followed.retain(|name, (revision, task)| {
            let stays = rows.iter().any(|row| row.name == *name && row.revision == *revision);
            if !stays {
                task.abort();
            }
            stays
        });
        for row in &rows {
            if followed.contains_key(&row.name) {
                continue;
            }
            let Ok(server) = server_of(row) else { continue };
            if server.enabled && row.state != "{}" {
                let state = self.clone();
                let task = tasks.spawn(async move { state.follow_server(server).await });
                followed.insert(row.name.clone(), (row.revision, task));
            }
        }
    }

    async fn follow_server(&self, server: McpServer) {
        loop {
            let Ok(endpoint) = endpoint_of(self, &server) else {
                tokio::time::sleep(REFUSED).await;
                continue;
            };
            let wait = match self.mcp.follow(&endpoint, Instant::now() + STREAM_LIFE).await {
                Ok(()) => AGAIN,
                Err(failure) => match failure.error {
                    McpError::Http { .. } | McpError::Rpc { .. } | McpError::Auth { .. } => REFUSED,
                    _ => AGAIN,
                },
            };
            tokio::time::sleep(wait).await;
        }
    }

    async fn take_over(&self, name: String, looks: &Looks) {
        loop {
            looks.lock().await.insert(name.clone(), false);
            match ingest(self, &name, false, "mcp").await {
                Ok(_) => tracing::info!(server = name, "its tools changed and were taken over"),
                Err(error) => {
                    tracing::warn!(server = name, error = %error, "its tools changed, and can't be looked at")
                }
            }
            // A server that says so all the time is looked at now and then.
            tokio::time::sleep(PAUSE).await;
            let mut under_way = looks.lock().await;
            if under_way.get(&name) != Some(&true) {
                under_way.remove(&name);
                return;
            }
        }
    }
}
