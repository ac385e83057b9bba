//! The application under test.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use scripted_model::ScriptedModel;
use secrecy::SecretString;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;
use toolcrib_api::{ApiState, Audience, People, Server, ServerSettings, router};
use toolcrib_definition::Secrets;
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{Executor, ExecutorSettings, HttpDispatch, LedgerSettings, ProtocolDispatch};
use toolcrib_mcp_ingest::McpClient;
use toolcrib_registry::{CallContext, CodeTool, CodeToolError, Registry, RegistryBuilder, TransactionalTool};
use toolcrib_skills::SkillBook;
use toolcrib_store::{
    EffectTransaction, Location, NewToken, OsRandomness, Role, SqlValue, Store, StoreError, SystemClock,
};
use toolcrib_turn::{Engine, ProviderSettings, Providers, TurnSettings, WireFormat};
use tower::ServiceExt;

/// The value of the one secret of the tests.
pub const SECRET: &str = "s3cr3t-\"quoted\"-value-7421";

pub struct App {
    pub router: Router,
    pub executor: Executor,
    pub store: Store,
    pub folder: TempDir,
    pub admin: String,
}

pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub text: String,
}

impl Answer {
    pub fn json(&self) -> Value {
        toolcrib_definition::json::parse(self.text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    pub fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

struct OneSecret;

impl Secrets for OneSecret {
    fn secret(&self, name: &str) -> Option<SecretString> {
        (name == "api_token").then(|| SecretString::from(SECRET))
    }
}

/// A code tool: its name is taken, whatever a row says.
struct Clock;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct ClockArguments {
    /// Minutes to add
    pub plus: Option<i64>,
    /// Fails on purpose: error or panic
    pub fail: Option<String>,
}

#[async_trait::async_trait]
impl CodeTool for Clock {
    type Arguments = ClockArguments;
    const NAME: &'static str = "read_clock";
    const DESCRIPTION: &'static str = "What the clock says";
    const GROUP: Option<&'static str> = Some("time");

    async fn call(&self, arguments: ClockArguments, context: &CallContext) -> Result<Value, CodeToolError> {
        match arguments.fail.as_deref() {
            Some("panic") => panic!("the clock fell off the wall"),
            Some(reason) => Err(CodeToolError(format!("the clock says {reason}"))),
            None => Ok(json!({ "minutes": 600 + arguments.plus.unwrap_or(0), "call": context.call_id })),
        }
    }
}

/// A tool whose effect is in the store's own database: it adds to an account, and fails after that when it is told to.
struct Deposit;

#[derive(serde::Deserialize, schemars::JsonSchema)]
pub struct DepositArguments {
    pub amount: i64,
    /// Fails on purpose after it wrote: error, panic or commit
    pub fail: Option<String>,
}

#[async_trait::async_trait]
impl TransactionalTool for Deposit {
    type Arguments = DepositArguments;
    const NAME: &'static str = "deposit";
    const DESCRIPTION: &'static str = "Adds to the account";

    async fn call(
        &self,
        arguments: DepositArguments,
        transaction: &mut EffectTransaction,
        _context: &CallContext,
    ) -> Result<Value, CodeToolError> {
        let failed = |error: StoreError| CodeToolError(format!("{error} {}", error.reason().unwrap_or_default()));
        let create = "CREATE TABLE IF NOT EXISTS account (amount BIGINT NOT NULL)";
        transaction.execute(create, &[]).await.map_err(failed)?;
        let insert = "INSERT INTO account (amount) VALUES ($1)";
        transaction.execute(insert, &[arguments.amount.into()]).await.map_err(failed)?;
        match arguments.fail.as_deref() {
            Some("panic") => panic!("the bank closed"),
            Some("commit") => drop(transaction.execute(" commit", &[]).await.map_err(failed)?),
            Some(reason) => return Err(CodeToolError(format!("the bank says {reason}"))),
            None => {}
        }
        let rows = transaction.fetch("SELECT SUM(amount) AS total FROM account", &[]).await.map_err(failed)?;
        let SqlValue::Integer(total) = rows[0][0].1 else { return Err(CodeToolError("no total".into())) };
        Ok(json!({ "total": total }))
    }
}

/// Short times, so that a test need not wait.
fn ledger_settings() -> LedgerSettings {
    LedgerSettings {
        lease: Duration::from_millis(900),
        quarantine: Duration::from_millis(1),
        ..LedgerSettings::default()
    }
}

impl App {
    pub async fn new() -> Self {
        Self::with_policy(Policy { allow_http: true, allow_private: true, ..Policy::default() }).await
    }

    pub async fn with_policy(policy: Policy) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("test.db"));
        Self::open(folder, &location, policy).await
    }

    /// One that has the tool `deposit` too.
    pub async fn with_bank() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("test.db"));
        let tools = |builder: RegistryBuilder| builder.transactional_tool(Deposit).ask_question();
        Self::build(folder, &location, Policy::default(), tools, Providers::default()).await
    }

    /// One whose agents ask a scripted model, as the provider `main`.
    pub async fn with_model(turns: Value) -> Self {
        let model = ScriptedModel::new(serde_json::from_value(json!({ "turns": turns })).unwrap());
        let (sender, address) = tokio::sync::oneshot::channel();
        tokio::spawn(async move {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            model.serve(any, |address| sender.send(address).unwrap()).await.unwrap();
        });
        let settings = ProviderSettings {
            base_url: format!("http://{}/v1", address.await.unwrap()),
            allow_http: true,
            allow_private: true,
            ..ProviderSettings::new(WireFormat::OpenAiChat)
        };
        let (resolver, dialler) = (Arc::new(DnsResolver::system()), Arc::new(TcpDialler));
        let mut providers = Providers::default();
        let no_key = Arc::new(|_: &str| None);
        providers.add("main", &settings, resolver, dialler, &TrustRoots::default(), no_key).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let location = Location::File(folder.path().join("test.db"));
        let policy = Policy { allow_http: true, allow_private: true, ..Policy::default() };
        Self::build(folder, &location, policy, RegistryBuilder::ask_question, providers).await
    }

    pub async fn open(folder: TempDir, location: &Location, policy: Policy) -> Self {
        Self::build(folder, location, policy, |builder| builder, Providers::default()).await
    }

    async fn build(
        folder: TempDir,
        location: &Location,
        policy: Policy,
        tools: impl FnOnce(RegistryBuilder) -> RegistryBuilder,
        providers: Providers,
    ) -> Self {
        let store = Store::open(location, Arc::new(SystemClock), Arc::new(OsRandomness)).await.unwrap();
        let registry = tools(Registry::builder(store.clone()).code_tool(Clock)).open().await.unwrap();
        let limits = Limits { body_bytes: 64 << 10, ..Limits::default() };
        let guard = Guard::new(Arc::new(policy), Arc::new(DnsResolver::system()), Arc::new(TcpDialler), limits.connect);
        let client = Client::new(guard, limits, &TrustRoots::default()).unwrap();
        let mcp = McpClient::new(client.clone());
        let dispatch = ProtocolDispatch::new(HttpDispatch::new(client), mcp.clone());
        let settings = ExecutorSettings { ledger: ledger_settings(), ..ExecutorSettings::default() };
        let executor = Executor::new(registry, Arc::new(dispatch), Arc::new(OneSecret), settings);
        tokio::spawn(executor.clone().keep_ledger(CancellationToken::new()));
        let skills = SkillBook::open(store.clone()).await.unwrap();
        let engine = Engine::new(executor.clone(), skills, Arc::new(providers), TurnSettings::default());
        tokio::spawn(engine.clone().keep());
        let environment = |name: &str| (name == "REGION").then(|| "south".to_owned());
        let state = ApiState::new(engine, mcp, Arc::new(environment), CancellationToken::new(), People::default())
            .await
            .unwrap();
        let admin = NewToken { name: "root".into(), role: Role::Admin, agents: None, expires_at: None };
        let (_, admin) = state.tokens().create(&admin).await.unwrap();
        state.set_ready(true);
        Self { router: router(state, Audience::Loopback), executor, store, folder, admin }
    }

    pub async fn token(&self, role: &str, agents: Option<&[&str]>) -> String {
        let made = self.post("/v1/tokens", json!({ "name": role, "role": role, "agents": agents })).await;
        made.json()["token"].as_str().unwrap().to_owned()
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        Answer { status: head.status, headers: head.headers, text: String::from_utf8_lossy(&bytes).into_owned() }
    }

    pub fn request(&self, method: Method, path: &str, token: Option<&str>, body: impl Into<Body>) -> Request<Body> {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if let Some(token) = token {
            request = request.header("authorization", format!("Bearer {token}"));
        }
        request.body(body.into()).unwrap()
    }

    pub async fn as_admin(&self, method: Method, path: &str, body: impl Into<Body>) -> Answer {
        self.send(self.request(method, path, Some(&self.admin), body)).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.as_admin(Method::GET, path, Body::empty()).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.as_admin(Method::POST, path, body.to_string()).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.as_admin(Method::PUT, path, body.to_string()).await
    }

    /// Writes a tool and fails the test when it is refused.
    pub async fn tool(&self, tool: Value) {
        let path = format!("/v1/tools/{}", tool["name"].as_str().unwrap());
        let answer = self.put(&path, tool).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// Writes an agent that may use everything, with these limits.
    pub async fn agent(&self, id: &str, profile: Value) {
        let answer = self.put(&format!("/v1/agents/{id}"), profile).await;
        assert!(answer.status.is_success(), "{}", answer.text);
    }

    /// Makes a call and returns its outcome.
    pub async fn call(&self, agent: &str, tool: &str, arguments: Value) -> Value {
        let body = json!({ "tool": tool, "arguments": arguments, "ctx": { "chat_id": "chat-1" } });
        let answer = self.post(&format!("/v1/agents/{agent}/calls"), body).await;
        assert_eq!(answer.status, 200, "{}", answer.text);
        answer.json()
    }

    /// The trace of an outcome.
    pub async fn trace(&self, outcome: &Value) -> Value {
        self.get(&format!("/v1/traces/{}", outcome["trace_id"].as_str().unwrap())).await.json()
    }
}

/// Serves a router on a free port of loopback.
pub async fn upstream(router: Router) -> String {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let server = Server::bind(address, None, router, ServerSettings::default()).await.unwrap();
    let base = format!("http://{}", server.local_addr().unwrap());
    tokio::spawn(server.run(CancellationToken::new()));
    base
}

/// A GET tool at a URL.
pub fn get_tool(name: &str, url: &str) -> Value {
    json!({ "name": name, "description": format!("Reads {name}"), "request": { "url": url } })
}
