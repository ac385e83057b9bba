//! Runs egress cases, the truth for egress as data, through the real policy and guard with a stub
//! resolver and a stub dialler.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use toolcrib_definition::{Ctx, CtxField, Definition, NoSecrets, PathParam, RenderInput};
use toolcrib_egress::{Dial, Guard, MixedAnswers, Policy, Resolve, ResolveError, Stream, Target};

use crate::vectors::{FileReport, Verdict, run_folder};

/// Runs every `.jsonl` file of a folder.
pub fn run(folder: &Path) -> anyhow::Result<Vec<FileReport>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    run_folder(folder, |_| Some(Box::new(|row: &Value| runtime.block_on(case(row)))))
}

struct StubResolver {
    first: Option<Vec<IpAddr>>,
    later: Option<Vec<IpAddr>>,
    asked: AtomicUsize,
}

#[async_trait]
impl Resolve for StubResolver {
    async fn resolve(&self, _host: &str) -> Result<Vec<IpAddr>, ResolveError> {
        let earlier = self.asked.fetch_add(1, Ordering::SeqCst);
        let answer = if earlier == 0 { &self.first } else { self.later.as_ref().map_or(&self.first, |_| &self.later) };
        answer.clone().ok_or_else(|| ResolveError { reason: "the case says that DNS is not asked".to_owned() })
    }
}

#[derive(Default)]
struct StubDialler {
    dialled: Mutex<Vec<SocketAddr>>,
}

#[async_trait]
impl Dial for StubDialler {
    async fn dial(&self, address: SocketAddr) -> std::io::Result<Box<dyn Stream>> {
        self.dialled.lock().unwrap_or_else(PoisonError::into_inner).push(address);
        let (ours, _theirs) = tokio::io::duplex(64);
        Ok(Box::new(ours))
    }
}

/// How one case went.
struct Outcome {
    allowed: Result<(), String>,
    rendered: Option<String>,
    dialled: Vec<SocketAddr>,
    lookups: usize,
    asked_unasked: bool,
}

async fn case(row: &Value) -> Verdict {
    let policy = match read_policy(&row["policy"]) {
        Ok(policy) => policy,
        Err(error) => return Err(("a policy".to_owned(), format!("{error:#}"))),
    };
    let outcome = play(row, policy).await;
    let expect = row["expect"].as_str().unwrap_or_default();
    let got = match &outcome.allowed {
        Ok(()) => "allow".to_owned(),
        Err(reason) => format!("deny: {reason}"),
    };
    if got.split(':').next() != Some(expect) {
        return Err((expect.to_owned(), got));
    }
    if outcome.asked_unasked {
        return Err(("DNS is not asked".to_owned(), format!("{} lookups", outcome.lookups)));
    }
    if let Some(renders) = row.get("renders").and_then(Value::as_str)
        && outcome.rendered.as_deref() != Some(renders)
    {
        return Err((renders.to_owned(), format!("{:?}", outcome.rendered)));
    }
    if let Some(connects) = row.get("connects_to").and_then(Value::as_array) {
        let expected: Vec<String> = connects.iter().filter_map(Value::as_str).map(str::to_owned).collect();
        let got: Vec<String> = outcome.dialled.iter().map(|address| address.ip().to_string()).collect();
        if expected != got {
            return Err((format!("{expected:?}"), format!("{got:?}")));
        }
    }
    if let Some(most) = row.get("max_lookups").and_then(Value::as_u64)
        && outcome.lookups as u64 > most
    {
        return Err((format!("at most {most} lookups"), outcome.lookups.to_string()));
    }
    Ok(())
}

async fn play(row: &Value, policy: Policy) -> Outcome {
    let mut outcome =
        Outcome { allowed: Ok(()), rendered: None, dialled: Vec::new(), lookups: 0, asked_unasked: false };
    let url = match final_url(row, &policy) {
        Ok(url) => url,
        Err(reason) => {
            outcome.allowed = Err(reason);
            return outcome;
        }
    };
    outcome.rendered = Some(url.clone());
    let policy = Arc::new(policy);
    let mut target = policy.check_url(&url).map_err(|blocked| blocked.to_string());
    let mut answers = (addresses(&row["resolves_to"]), addresses(&row["second_answer"]));
    let redirects = row.get("redirects").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut hops = redirects.iter();
    let mut hop = 0;
    loop {
        let reached = match target {
            Ok(target) => connect(&policy, target, answers, &mut outcome).await,
            Err(reason) => Err(reason),
        };
        let (from, next) = match (reached, hops.next()) {
            (Err(reason), _) => {
                outcome.allowed = Err(reason);
                return outcome;
            }
            (Ok(_), None) => return outcome,
            (Ok(from), Some(next)) => (from, next),
        };
        let location = next["location"].as_str().unwrap_or_default();
        target = policy.check_redirect(&from, location, hop).map_err(|blocked| blocked.to_string());
        answers = (addresses(&next["resolves_to"]), None);
        hop += 1;
    }
}

async fn connect(
    policy: &Arc<Policy>,
    target: Target,
    (first, later): (Option<Vec<IpAddr>>, Option<Vec<IpAddr>>),
    outcome: &mut Outcome,
) -> Result<Target, String> {
    let resolver = Arc::new(StubResolver { first, later, asked: AtomicUsize::new(0) });
    let dialler = Arc::new(StubDialler::default());
    let guard = Guard::new(
        Arc::clone(policy),
        Arc::<StubResolver>::clone(&resolver),
        Arc::<StubDialler>::clone(&dialler),
        Duration::from_secs(5),
    );
    let connected = guard.connect(&target).await;
    let asked = resolver.asked.load(Ordering::SeqCst);
    outcome.lookups += asked;
    outcome.asked_unasked |= asked > 0 && resolver.first.is_none();
    outcome.dialled.extend(dialler.dialled.lock().unwrap_or_else(PoisonError::into_inner).iter());
    connected.map(|_| target).map_err(|error| error.to_string())
}

fn addresses(value: &Value) -> Option<Vec<IpAddr>> {
    let list = value.as_array()?;
    Some(list.iter().filter_map(Value::as_str).filter_map(|text| text.parse().ok()).collect())
}

/// The URL of the case: raw, or rendered from a definition when there are params or headers.
fn final_url(row: &Value, policy: &Policy) -> Result<String, String> {
    let raw = row["url"].as_str().unwrap_or_default();
    if row.get("params").is_none() && row.get("headers").is_none() {
        return Ok(raw.to_owned());
    }
    let params = row.get("params").and_then(Value::as_object).cloned().unwrap_or_default();
    let host_params: Vec<&str> =
        row["policy"]["host_params"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut url = raw.to_owned();
    let mut ctx = Ctx::default();
    let mut properties = Map::new();
    let mut arguments = Map::new();
    let mut fields = CtxField::ALL.into_iter().rev();
    for (name, value) in &params {
        if host_params.contains(&name.as_str()) {
            let field = fields.next().ok_or("more host params than context fields")?;
            url = url.replace(&format!("{{{{{name}}}}}"), &format!("{{{{ctx.{}}}}}", field.as_str()));
            ctx = ctx.with(field, value.as_str().unwrap_or_default());
        } else {
            let kind = match value {
                Value::Number(_) => "number",
                Value::Bool(_) => "boolean",
                _ => "string",
            };
            properties.insert(name.clone(), json!({ "type": kind }));
            arguments.insert(name.clone(), value.clone());
        }
    }
    let mut request = json!({ "url": url });
    if let Some(headers) = row.get("headers") {
        request["headers"] = headers.clone();
    }
    let tool = json!({
        "name": "egress_case",
        "description": "One egress case",
        "parameters": { "type": "object", "properties": properties },
        "request": request,
    });
    let definition = Definition::from_value(&tool).map_err(|problems| problems.to_string())?;
    let input = RenderInput {
        arguments: &arguments,
        ctx: &ctx,
        call_id: "case",
        key: "case",
        secrets: &NoSecrets,
        path_param: policy.path_param,
    };
    definition.render(input).map(|request| request.url).map_err(|error| error.to_string())
}

fn read_policy(value: &Value) -> anyhow::Result<Policy> {
    let texts = |key: &str| -> Option<Vec<String>> {
        let list = value.get(key)?.as_array()?;
        Some(list.iter().filter_map(Value::as_str).map(str::to_owned).collect())
    };
    let nets = |key: &str| -> anyhow::Result<Vec<ipnet::IpNet>> {
        let list = texts(key).unwrap_or_default();
        list.iter().map(|net| net.parse().with_context(|| format!("{key}: {net}"))).collect()
    };
    let hosts = |key: &str| -> anyhow::Result<Option<Vec<toolcrib_egress::HostPattern>>> {
        texts(key).map(|list| list.iter().map(|host| Ok(host.parse()?)).collect()).transpose()
    };
    let flag = |key: &str| value.get(key).and_then(Value::as_bool).unwrap_or_default();
    let schemes = texts("schemes").context("schemes")?;
    let ports = value.get("ports").and_then(Value::as_array);
    Ok(Policy {
        allow_http: schemes.iter().any(|scheme| scheme == "http"),
        allow_https: schemes.iter().any(|scheme| scheme == "https"),
        hosts: hosts("hosts")?,
        deny_hosts: hosts("deny_hosts")?.unwrap_or_default(),
        // A case's policy is complete: its deny list is all there is.
        deny_builtin_hosts: false,
        ports: ports.map(|list| list.iter().filter_map(|port| u16::try_from(port.as_u64()?).ok()).collect()),
        ip_literals: flag("ip_literals"),
        mixed_answers: match value.get("mixed_answers").and_then(Value::as_str) {
            Some("filter") => MixedAnswers::Filter,
            Some("deny") | None => MixedAnswers::Deny,
            Some(other) => bail!("mixed_answers {other}"),
        },
        deny_cidrs: nets("deny_cidrs")?,
        allow_cidrs: nets("allow_cidrs")?,
        allow_private: flag("allow_private"),
        nat64: flag("nat64"),
        max_redirects: value
            .get("max_redirects")
            .and_then(Value::as_u64)
            .and_then(|n| u8::try_from(n).ok())
            .unwrap_or(0),
        path_param: match value.get("path_param").and_then(Value::as_str) {
            Some("strict") => PathParam::Strict,
            _ => PathParam::Encode,
        },
    })
}
