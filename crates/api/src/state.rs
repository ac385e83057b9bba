//! What the handlers share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use prometheus_client::registry::Registry as MetricsRegistry;
use tokio_util::sync::CancellationToken;
use toolcrib_definition::Secrets;
use toolcrib_executor::Executor;
use toolcrib_mcp_ingest::McpClient;
use toolcrib_registry::Registry;
use toolcrib_store::Change;
use toolcrib_turn::Engine;

use crate::ingestion::Looks;
use crate::mcp::McpParts;
use crate::people::People;
use crate::token_book::TokenBook;

/// Which variables of the environment a manifest may read.
pub type ManifestEnvironment = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// What the API is made of. Cloning is cheap and is the same API.
#[derive(Clone)]
pub struct ApiState(Arc<Parts>);

/// The parts of the API.
pub struct Parts {
    pub(crate) executor: Executor,
    pub(crate) engine: Engine,
    pub(crate) tokens: TokenBook,
    pub(crate) environment: ManifestEnvironment,
    pub(crate) metrics: MetricsRegistry,
    pub(crate) ready: AtomicBool,
    pub(crate) shutdown: CancellationToken,
    pub(crate) mcp: McpClient,
    pub(crate) mcp_parts: McpParts,
    pub(crate) people: People,
    pub(crate) looks: Looks,
    /// What is found of MCP servers is written one at a time. Never held while a server is asked.
    pub(crate) ingesting: tokio::sync::Mutex<()>,
}

impl std::ops::Deref for ApiState {
    type Target = Parts;

    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl ApiState {
    /// The API over this engine and its executor; `mcp` looks at MCP servers. `shutdown` ends the streams. `people` says how people are
    /// reached.
    ///
    /// # Errors
    /// The store's, when the tokens can't be read.
    pub async fn new(
        engine: Engine,
        mcp: McpClient,
        environment: ManifestEnvironment,
        shutdown: CancellationToken,
        people: People,
    ) -> Result<Self, toolcrib_store::StoreError> {
        let executor = engine.executor().clone();
        let mut metrics = MetricsRegistry::default();
        executor.metrics().register(&mut metrics);
        let tokens = TokenBook::open(executor.registry().store().clone()).await?;
        let (ready, ingesting) = (AtomicBool::new(false), tokio::sync::Mutex::new(()));
        Ok(Self(Arc::new(Parts {
            executor,
            engine,
            tokens,
            environment,
            metrics,
            ready,
            shutdown,
            mcp,
            mcp_parts: McpParts::default(),
            people,
            looks: Looks::default(),
            ingesting,
        })))
    }

    /// Says that requests may come, or that they may no longer.
    pub fn set_ready(&self, ready: bool) {
        self.ready.store(ready, Ordering::SeqCst);
    }

    /// The tokens.
    pub fn tokens(&self) -> &TokenBook {
        &self.tokens
    }

    /// Follows what other processes change in the rows, until shutdown: catalog and tokens.
    pub async fn follow_changes(self, every: std::time::Duration) {
        let events = self.executor.events().clone();
        let mut known = self.registry().snapshot().revision();
        let mut changes = self.registry().store().changes().listen();
        loop {
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                () = changes.next(Change::Catalog) => {}
                () = tokio::time::sleep(every) => {}
            }
            if let Err(error) = self.registry().refresh().await {
                tracing::warn!(error = %error, "registry.catalog.refresh failed");
            }
            if let Err(error) = self.engine.skills().refresh().await {
                tracing::warn!(error = %error, "skills.catalog.refresh failed");
            }
            if let Err(error) = self.tokens.refresh().await {
                tracing::warn!(error = %error, "api.tokens.refresh failed");
            }
            let revision = self.registry().snapshot().revision();
            if revision != known {
                known = revision;
                events.publish(
                    toolcrib_executor::EventKind::CatalogChanged,
                    None,
                    || serde_json::json!({ "revision": revision.0 }),
                );
            }
        }
    }

    pub(crate) fn registry(&self) -> &Arc<Registry> {
        self.executor.registry()
    }

    pub(crate) fn secrets(&self) -> Arc<dyn Secrets> {
        self.executor.secrets()
    }
}
