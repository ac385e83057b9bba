//! A turn beside the same requests made by a bare client, a batch beside its slowest call, and the triggers of 10,000 skills.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use bytes::Bytes;
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use scripted_model::{Script, ScriptedModel};
use serde_json::json;
use tokio::net::TcpStream;
use toolcrib_definition::{Ctx, Definition, NoSecrets};
use toolcrib_egress::{Client, DnsResolver, Guard, Limits, Policy, TcpDialler, TrustRoots};
use toolcrib_executor::{CallRequest, Executor, ExecutorSettings, HttpDispatch};
use toolcrib_registry::{Agent, Registry};
use toolcrib_skills::{Skill, SkillBook, SkillCatalog};
use toolcrib_store::{Expect, Location, OsRandomness, Store, SystemClock};
use toolcrib_turn::{Engine, NewMessage, ProviderSettings, Providers, TurnSettings, WireFormat};

use super::{Effort, ms, proxy, quantile};

const SESSIONS: usize = 16;
/// How long a session pauses between turns.
const PAUSE: Duration = Duration::from_millis(50);
const SKILLS: usize = 10_000;
const MESSAGE_BYTES: usize = 2 << 10;

pub async fn run(effort: Effort) -> anyhow::Result<()> {
    engine(effort).await?;
    batch().await?;
    triggers()
}

struct Bench {
    engine: Engine,
    executor: Executor,
    agent: Arc<Agent>,
    model: ScriptedModel,
    model_address: SocketAddr,
    upstream: SocketAddr,
    _folder: tempfile::TempDir,
}

async fn start(upstream: SocketAddr) -> anyhow::Result<Bench> {
    let turns = json!([{"steps": [
        {"calls": [{"tool": "first", "arguments": {"query": "a"}}, {"tool": "second", "arguments": {"query": "b"}}]},
        {"text": "Both were found."},
    ]}]);
    let script: Script = serde_json::from_value(json!({ "turns": turns }))?;
    let model = ScriptedModel::new(script);
    let (sender, told) = tokio::sync::oneshot::channel();
    let serving = model.clone();
    tokio::spawn(async move {
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        // Nobody waits any more when the bench is over.
        let told = |address| {
            let _ = sender.send(address);
        };
        serving.serve(any, told).await
    });
    let model_address = told.await?;
    let folder = tempfile::tempdir()?;
    let location = Location::File(folder.path().join("bench.db"));
    let store = Store::open(&location, Arc::new(SystemClock), Arc::new(OsRandomness)).await?;
    let registry = Registry::builder(store.clone()).open().await?;
    for name in ["first", "second"] {
        let tool = json!({
            "name": name, "description": "Find",
            "parameters": {"type": "object", "properties": {"query": {"type": "string"}}},
            "request": {"url": format!("http://{upstream}/{name}"), "query": {"q": "{{query}}"}},
        });
        registry.put_tool(&Definition::from_value(&tool)?, Expect::Anything, "bench").await?;
    }
    let policy = Policy { allow_http: true, allow_private: true, ..Policy::default() };
    let limits = Limits::default();
    let guard = Guard::new(Arc::new(policy), Arc::new(DnsResolver::system()), Arc::new(TcpDialler), limits.connect);
    let http = Arc::new(HttpDispatch::new(Client::new(guard, limits, &TrustRoots::default())?));
    let executor = Executor::new(registry, http, Arc::new(NoSecrets), ExecutorSettings::default());
    let settings = ProviderSettings {
        base_url: format!("http://{model_address}/v1"),
        allow_http: true,
        allow_private: true,
        ..ProviderSettings::new(WireFormat::OpenAiChat)
    };
    let mut providers = Providers::default();
    let (resolver, dialler) = (Arc::new(DnsResolver::system()), Arc::new(TcpDialler));
    providers.add("main", &settings, resolver, dialler, &TrustRoots::default(), Arc::new(|_: &str| None))?;
    let skills = SkillBook::open(store).await?;
    let engine = Engine::new(executor.clone(), skills, Arc::new(providers), TurnSettings::default());
    tokio::spawn(engine.clone().keep());
    let agent = Arc::new(Agent::from_json(
        &json!({"provider": "main", "model": "script", "instructions": "You find things."}),
    )?);
    Ok(Bench { engine, executor, agent, model, model_address, upstream, _folder: folder })
}

async fn engine(effort: Effort) -> anyhow::Result<()> {
    let bench = Arc::new(start(proxy::upstream().await?).await?);
    one_turn(&bench).await?;
    let requests = bench.model.requests();
    let bodies: Vec<Bytes> = requests.iter().map(|request| request.body.to_string().into()).collect();
    anyhow::ensure!(bodies.len() == 2, "{} requests instead of two", bodies.len());
    let bodies: Arc<[Bytes]> = bodies.into();
    let mut figures = Vec::new();
    for _ in 0..effort.rounds {
        let bare = bare_round(&bench, &bodies, effort.round).await?;
        let ours = our_round(&bench, effort.round).await?;
        let own = |share| ms(quantile(&ours, share)) - ms(quantile(&bare, share));
        let ratio = ms(quantile(&ours, 0.5)) / ms(quantile(&bare, 0.5));
        println!(
            "turns: p50 {:.2} ms and p99 {:.2} ms of {}; the bare client's: {:.2} and {:.2} of {}; own time {:.2} and {:.2}; ratio {ratio:.2}",
            ms(quantile(&ours, 0.5)),
            ms(quantile(&ours, 0.99)),
            ours.len(),
            ms(quantile(&bare, 0.5)),
            ms(quantile(&bare, 0.99)),
            bare.len(),
            own(0.5),
            own(0.99),
        );
        figures.push((own(0.5), own(0.99), ratio));
    }
    let median = |of: fn(&(f64, f64, f64)) -> f64| {
        let mut sorted: Vec<f64> = figures.iter().map(of).collect();
        sorted.sort_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).copied().unwrap_or_default()
    };
    println!(
        "a turn with two calls at {SESSIONS} sessions: own time p50 {:.2} ms, p99 {:.2} ms; {:.2} of the bare client's",
        median(|figure| figure.0),
        median(|figure| figure.1),
        median(|figure| figure.2),
    );
    Ok(())
}

async fn one_turn(bench: &Bench) -> anyhow::Result<Duration> {
    let message = NewMessage { text: "find both".to_owned(), ..NewMessage::default() };
    let began = Instant::now();
    let outcome = bench.engine.begin("bench", &bench.agent, message).await?.outcome().await.context("no outcome")?;
    let took = began.elapsed();
    anyhow::ensure!(outcome.text.as_deref() == Some("Both were found."), "{outcome:?}");
    Ok(took)
}

/// Each turn has a session of its own, so that its prompt is the one that the bare client sends.
async fn our_round(bench: &Arc<Bench>, time: Duration) -> anyhow::Result<Vec<Duration>> {
    let started = Instant::now();
    let sessions = (0..SESSIONS).map(|number| {
        let bench = Arc::clone(bench);
        tokio::spawn(async move {
            tokio::time::sleep(PAUSE * u32::try_from(number)? / u32::try_from(SESSIONS)?).await;
            let mut times = Vec::new();
            while started.elapsed() < time {
                times.push(one_turn(&bench).await?);
                tokio::time::sleep(PAUSE).await;
            }
            anyhow::Ok(times)
        })
    });
    all(sessions.collect()).await
}

async fn bare_round(bench: &Arc<Bench>, bodies: &Arc<[Bytes]>, time: Duration) -> anyhow::Result<Vec<Duration>> {
    let started = Instant::now();
    let sessions = (0..SESSIONS).map(|number| {
        let (bench, bodies) = (Arc::clone(bench), Arc::clone(bodies));
        tokio::spawn(async move {
            let mut model = connect(bench.model_address).await?;
            let mut upstream = connect(bench.upstream).await?;
            tokio::time::sleep(PAUSE * u32::try_from(number)? / u32::try_from(SESSIONS)?).await;
            let mut times = Vec::new();
            while started.elapsed() < time {
                let began = Instant::now();
                ask(&mut model, &bodies[0]).await?;
                for (name, query) in [("first", "a"), ("second", "b")] {
                    let request = Request::get(format!("/{name}?q={query}")).header(HOST, "upstream");
                    read(&mut upstream, request.body(Full::default())?).await?;
                }
                ask(&mut model, &bodies[1]).await?;
                times.push(began.elapsed());
                tokio::time::sleep(PAUSE).await;
            }
            anyhow::Ok(times)
        })
    });
    all(sessions.collect()).await
}

async fn all(sessions: Vec<tokio::task::JoinHandle<anyhow::Result<Vec<Duration>>>>) -> anyhow::Result<Vec<Duration>> {
    let mut times = Vec::new();
    for session in sessions {
        times.extend(session.await??);
    }
    times.sort();
    Ok(times)
}

async fn connect(address: SocketAddr) -> anyhow::Result<SendRequest<Full<Bytes>>> {
    let stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender)
}

async fn ask(model: &mut SendRequest<Full<Bytes>>, body: &Bytes) -> anyhow::Result<()> {
    let request = Request::post("/v1/chat/completions").header(HOST, "model").header(CONTENT_TYPE, "application/json");
    read(model, request.body(Full::new(body.clone()))?).await
}

async fn read(sender: &mut SendRequest<Full<Bytes>>, request: Request<Full<Bytes>>) -> anyhow::Result<()> {
    sender.ready().await?;
    let response = sender.send_request(request).await?;
    anyhow::ensure!(response.status().is_success(), "HTTP {}", response.status());
    response.into_body().collect().await?;
    Ok(())
}

/// Eight calls of 200 ms at once, beside one.
async fn batch() -> anyhow::Result<()> {
    let slow = proxy::slow_upstream(Duration::from_millis(200)).await?;
    let bench = start(slow).await?;
    let agent = Arc::new(Agent::from_json(&json!({"limits": {"tool_concurrency": 8}}))?);
    let mut ratios = Vec::new();
    for _ in 0..5 {
        let one = Instant::now();
        bench.executor.call("bench", &agent, Ctx::default(), CallRequest::new("first", json!({"query": "a"}))).await;
        let one = one.elapsed();
        let calls = (0..8).map(|i| CallRequest::new("first", json!({"query": i.to_string()}))).collect();
        let began = Instant::now();
        let outcomes =
            bench.executor.batch("bench", &agent, Ctx::default(), bench.executor.batch_of(&agent, calls)).await;
        ratios.push(began.elapsed().as_secs_f64() / one.as_secs_f64());
        anyhow::ensure!(outcomes.iter().all(|outcome| outcome.status.as_str() == "ok"), "a call failed");
    }
    ratios.sort_by(f64::total_cmp);
    println!("a batch of 8 calls of 200 ms at tool_concurrency 8: {:.2} of one such call", ratios[ratios.len() / 2]);
    Ok(())
}

/// The triggers of many skills in a message, and what building the automaton costs.
fn triggers() -> anyhow::Result<()> {
    let mut catalog = SkillCatalog::default();
    for i in 0..SKILLS {
        let (a, b, c) = (word(i), word(i + SKILLS), word(i + 2 * SKILLS));
        let text = format!("---\nname: skill-{i}\ndescription: d\ntriggers: [{a}, \"{a} {b}\", {c}]\n---\ntext");
        catalog.put("", Skill::from_markdown(&format!("skill-{i}"), &text)?);
    }
    let building = Instant::now();
    catalog.index();
    let built = building.elapsed();
    let agent = Agent::from_json(&json!({}))?;
    let skills = catalog.of("bench", &agent);
    let mut message = String::new();
    let mut i = 0;
    while message.len() < MESSAGE_BYTES {
        message.push_str(&word(7 * SKILLS + i));
        message.push(' ');
        if i % 40 == 0 {
            message.push_str(&word(i));
            message.push(' ');
        }
        i += 1;
    }
    let present = std::collections::HashSet::new();
    let mut times = Vec::new();
    let mut found = 0;
    for _ in 0..200 {
        let began = Instant::now();
        found = skills.activate(&message, &present).len();
        times.push(began.elapsed());
    }
    anyhow::ensure!(found > 3, "{found} skills were found");
    times.sort();
    println!(
        "triggers of {SKILLS} skills in {} bytes: p50 {:.3} ms, p99 {:.3} ms ({found} found); the automaton is built in {:.0} ms",
        message.len(),
        ms(quantile(&times, 0.5)),
        ms(quantile(&times, 0.99)),
        ms(built)
    );
    Ok(())
}

/// A word of its own for each number.
fn word(number: usize) -> String {
    let mut word = String::new();
    let mut rest = number * 7919 + 1_000_003;
    while rest > 0 {
        word.push(char::from(b'a' + u8::try_from(rest % 26).unwrap_or_default()));
        rest /= 26;
    }
    word
}
