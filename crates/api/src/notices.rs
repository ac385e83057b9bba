//! Telling people of new approvals, through egress. What is to be told is a row until it was told.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use hmac::{Hmac, KeyInit, Mac};
use http::header::{CONTENT_TYPE, HeaderValue};
use http::{HeaderMap, Method};
use secrecy::{ExposeSecret, SecretString};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::time::{Instant, timeout};
use toolcrib_egress::{Client, Outbound};
use toolcrib_store::{Approval, ApprovalState, Change, Notice, StoreError};

use crate::approval_links::Link;
use crate::ledger::stored;
use crate::people::{LINK_SECRET, MIN_LINK_KEY, Webhook, WebhookFormat, WebhookUrl};
use crate::state::ApiState;

/// How often notices are looked for although nobody told of one.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The whole time of one message.
const PATIENCE: Duration = Duration::from_secs(15);
/// How long a process may take over what it took up.
const LEASE_MS: i64 = 60_000;
/// Tries of one message; the pauses grow, so that the last is about five hours after the first.
const MOST_TRIES: i64 = 12;
/// Messages that are taken up at once.
const AT_ONCE: u32 = 16;
/// How much of a request a message shows, in characters.
const MAX_SHOWN: usize = 2_000;

impl ApiState {
    /// Tells webhooks of new approvals, until shutdown.
    pub async fn send_notices(self) {
        let Some(client) = self.people.client.clone().filter(|_| !self.people.webhooks.is_empty()) else {
            return self.shutdown.cancelled().await;
        };
        let mut changes = self.registry().store().changes().listen();
        loop {
            if let Err(error) = self.send_due(&client).await {
                tracing::warn!(error = %error, reason = error.reason(), "api.notices.send failed");
            }
            tokio::select! {
                () = self.shutdown.cancelled() => return,
                _ = timeout(LOOK_EVERY, changes.next(Change::Settled)) => {}
            }
        }
    }

    async fn send_due(&self, client: &Client) -> Result<(), StoreError> {
        let store = self.registry().store();
        for Notice { approval, webhook, tries } in store.take_notices(LEASE_MS, AT_ONCE).await? {
            let known = self.people.webhooks.iter().find(|known| known.name == webhook);
            let sent = match known {
                // Nobody need be told of what is decided, and nobody can who is not configured any more.
                Some(known) if approval.state == ApprovalState::Open => self.send(client, known, &approval).await,
                _ => Ok(()),
            };
            match sent {
                Ok(()) => store.drop_notice(&approval.id, &webhook).await?,
                Err(reason) if tries >= MOST_TRIES => {
                    tracing::error!(webhook, approval = %approval.id, reason, "a webhook could not be told; given up");
                    store.drop_notice(&approval.id, &webhook).await?;
                }
                Err(reason) => {
                    tracing::warn!(webhook, approval = %approval.id, tries, reason, "a webhook could not be told; again later");
                    let pause = 10_000_i64.saturating_mul(1 << tries.clamp(0, 11));
                    store.delay_notice(&approval.id, &webhook, pause).await?;
                }
            }
        }
        Ok(())
    }

    async fn send(&self, client: &Client, webhook: &Webhook, approval: &Approval) -> Result<(), String> {
        let secrets = self.secrets();
        let secret = |name: &str| secrets.secret(name).ok_or_else(|| format!("the secret {name:?} is not configured"));
        let url = match &webhook.url {
            WebhookUrl::Plain(url) => url.clone(),
            WebhookUrl::Secret(name) => secret(name)?.expose_secret().to_owned(),
        };
        let row = self.registry().store().ledger_row(&approval.ledger_id).await.map_err(|error| error.to_string())?;
        let request = row.and_then(|row| stored(&row.request)).unwrap_or_default();
        let link = self.link_to(&approval.id, &webhook.name).map(|(url, _)| url);
        let body = match webhook.format {
            WebhookFormat::Json => message(approval, &request, link.as_deref()),
            WebhookFormat::Slack => blocks(approval, &request, link.as_deref()),
        };
        let body = body.to_string();
        let mut headers = HeaderMap::new();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        if let Some(name) = &webhook.secret {
            let seconds = self.registry().store().clock().now_ms() / 1_000;
            sign(&mut headers, &secret(name)?, &approval.id, seconds, &body)?;
        }
        // An address that is a secret is in no message.
        let target = client
            .policy()
            .check_url(&url)
            .map_err(|blocked| format!("blocked by the egress policy ({})", blocked.reason.code()))?;
        let outbound = Outbound { method: Method::POST, target, headers, body: Bytes::from(body) };
        let answer = client
            .read(&outbound, Instant::now() + PATIENCE)
            .await
            .map_err(|failure| failure.error.code().to_owned())?;
        if answer.status.is_success() { Ok(()) } else { Err(format!("it answered HTTP {}", answer.status.as_u16())) }
    }

    /// The key of links, when it is one that nobody guesses.
    pub(crate) fn link_key(&self) -> Option<SecretString> {
        self.secrets().secret(LINK_SECRET).filter(|key| key.expose_secret().len() >= MIN_LINK_KEY)
    }

    /// A link to decide about an approval, with until when it is good in ms since 1970. None when links are not
    /// configured.
    pub(crate) fn link_to(&self, approval: &str, whom: &str) -> Option<(String, i64)> {
        let base = self.people.public_url.as_deref()?.trim_end_matches('/');
        let key = self.link_key()?;
        let life = i64::try_from(self.people.link_life.as_millis()).unwrap_or(i64::MAX / 4);
        let expires_at = self.registry().store().clock().now_ms() + life;
        let link = Link { approval: approval.to_owned(), whom: whom.to_owned(), expires_at };
        Some((format!("{base}/approvals/{}", link.seal(&key)), expires_at))
    }
}

/// The headers of Standard Webhooks: the id, the time, and an HMAC over both and the body.
fn sign(headers: &mut HeaderMap, secret: &SecretString, id: &str, seconds: i64, body: &str) -> Result<(), String> {
    let text = secret.expose_secret();
    let key = match text.strip_prefix("whsec_") {
        Some(coded) => STANDARD.decode(coded).map_err(|_| "the signing secret is no base64 after whsec_".to_owned())?,
        None => text.as_bytes().to_vec(),
    };
    let mut mac = Hmac::<Sha256>::new_from_slice(&key).map_err(|error| error.to_string())?;
    mac.update(format!("{id}.{seconds}.{body}").as_bytes());
    let signature = format!("v1,{}", STANDARD.encode(mac.finalize().into_bytes()));
    for (name, value) in
        [("webhook-id", id.to_owned()), ("webhook-timestamp", seconds.to_string()), ("webhook-signature", signature)]
    {
        headers.insert(name, HeaderValue::from_str(&value).map_err(|error| error.to_string())?);
    }
    Ok(())
}

fn message(approval: &Approval, request: &Value, link: Option<&str>) -> Value {
    json!({
        "type": "approval.requested",
        "timestamp": crate::time::shown(approval.created_at),
        "data": {
            "id": approval.id, "ledger_id": approval.ledger_id, "kind": approval.kind.as_str(), "agent": approval.agent,
            "session": approval.session, "tool": approval.tool, "why": approval.why, "request": request,
            "expires_at": crate::time::shown(approval.expires_at), "url": link,
        },
    })
}

fn blocks(approval: &Approval, request: &Value, link: Option<&str>) -> Value {
    let plain = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let shown: String = format!("{request:#}").chars().take(MAX_SHOWN).collect();
    let title = format!("{} wants to call {}", approval.agent, approval.tool);
    let why: String = approval.why.chars().take(MAX_SHOWN).collect();
    // Three backticks inside would end the block.
    let shown = plain(&shown).replace("```", "'''");
    let mut blocks = vec![
        json!({ "type": "header", "text": { "type": "plain_text", "text": title.chars().take(150).collect::<String>() } }),
        json!({ "type": "section", "text": { "type": "mrkdwn", "text": plain(&why) } }),
        json!({ "type": "section", "text": { "type": "mrkdwn", "text": format!("```{shown}```") } }),
    ];
    match link {
        Some(url) => blocks.push(json!({
            "type": "actions",
            "elements": [{ "type": "button", "text": { "type": "plain_text", "text": "Look and decide" }, "url": url }],
        })),
        None => blocks.push(json!({
            "type": "context",
            "elements": [{ "type": "mrkdwn", "text": format!("`toolcrib approvals show {}`", approval.id) }],
        })),
    }
    json!({ "text": title, "blocks": blocks })
}
