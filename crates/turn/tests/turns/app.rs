//! An engine over a real SQLite file, a scripted model and a small upstream, all on loopback.

use std::sync::Arc;
use std::time::Duration;

use scripted_model::{Script, ScriptedModel};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use toolcrib_definition::NoSecrets;
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{Executor, ExecutorSettings, HttpDispatch};
use toolcrib_registry::Registry;
use toolcrib_skills::SkillBook;
use toolcrib_store::{Location, OsRandomness, Store, SystemClock};
use toolcrib_turn::{Engine, ProviderSettings, Providers, TurnSettings, WireFormat};

use crate::upstream::Upstream;

pub struct App {
    pub engine: Engine,
    pub executor: Executor,
    pub store: Store,
    pub skills: Arc<SkillBook>,
    pub model: ScriptedModel,
    pub upstream: Upstream,
    _folder: TempDir,
    _tasks: JoinSet<()>,
}

impl App {
    /// Everything, with the model asked in this form. Providers are called `main` and, with the same model behind, `other`.
    pub async fn start(script: Script, format: &str) -> Self {
        let mut app = Self::start_without_keepers(script, format).await;
        app._tasks.spawn(app.engine.clone().keep());
        app._tasks.spawn(app.executor.clone().keep_ledger(CancellationToken::new()));
        app
    }

    /// The same, where nobody takes up what was left.
    pub async fn start_without_keepers(script: Script, format: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("turns.db"));
        let store = Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness)).await.unwrap();
        let mut tasks = JoinSet::new();
        let model = ScriptedModel::new(script);
        let (sender, address) = tokio::sync::oneshot::channel();
        let serving = model.clone();
        tasks.spawn(async move {
            let any = "127.0.0.1:0".parse().unwrap();
            let told = |address| sender.send(address).unwrap();
            serving.serve(any, told).await.unwrap();
        });
        let base = format!("http://{}", address.await.unwrap());
        let upstream = Upstream::start(&mut tasks).await;

        let registry = Registry::builder(store.clone()).ask_question().open().await.unwrap();
        let policy = Policy { allow_http: true, allow_private: true, ..Policy::default() };
        let resolver = Arc::new(DnsResolver::system());
        let connect = Duration::from_secs(5);
        let guard = Guard::new(Arc::new(policy), resolver, Arc::new(TcpDialler), connect);
        let client = Client::new(guard, Limits::default(), &TrustRoots::default()).unwrap();
        let http = Arc::new(HttpDispatch::new(client));
        let executor = Executor::new(registry, http, Arc::new(NoSecrets), ExecutorSettings::default());

        let wire = WireFormat::named(format).unwrap();
        let version = if wire == WireFormat::Gemini { "v1beta" } else { "v1" };
        let providers = providers(wire, &format!("{base}/{version}"));
        let skills = SkillBook::open(store.clone()).await.unwrap();
        let turns = TurnSettings { look_every: Duration::from_millis(100), ..TurnSettings::default() };
        let engine = Engine::new(executor.clone(), Arc::clone(&skills), Arc::new(providers), turns);
        Self { engine, executor, store, skills, model, upstream, _folder: folder, _tasks: tasks }
    }

    /// Another engine over the same rows, whose providers are at this address and speak OpenAI's chat.
    pub fn engine_asking(&self, base: &str) -> Engine {
        let providers = providers(WireFormat::OpenAiChat, base);
        Engine::new(self.executor.clone(), Arc::clone(&self.skills), Arc::new(providers), TurnSettings::default())
    }
}

/// Two providers at one address: `main` and `other`.
fn providers(wire: WireFormat, base: &str) -> Providers {
    let settings = ProviderSettings {
        base_url: base.to_owned(),
        allow_http: true,
        allow_private: true,
        ..ProviderSettings::new(wire)
    };
    let mut providers = Providers::default();
    for name in ["main", "other"] {
        let (resolver, roots) = (Arc::new(DnsResolver::system()), TrustRoots::default());
        let added = providers.add(name, &settings, resolver, Arc::new(TcpDialler), &roots, Arc::new(|_: &str| None));
        added.unwrap();
    }
    providers
}
