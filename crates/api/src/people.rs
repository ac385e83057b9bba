//! How people are reached about approvals: signed links, and webhooks.

use std::time::Duration;

use secrecy::ExposeSecret;
use toolcrib_definition::Secrets;
use toolcrib_egress::Client;

/// The secret that links are signed with, by its name among the configured ones.
pub const LINK_SECRET: &str = "approval_links";

/// The shortest key of links, in bytes: a shorter one could be guessed by whoever has a link.
pub(crate) const MIN_LINK_KEY: usize = 32;

/// How people are reached.
#[derive(Clone)]
pub struct People {
    /// Where this server is for a browser, such as `https://tools.example.com`; without it there are no links.
    pub public_url: Option<String>,
    /// How long a link is good. Default 24 hours.
    pub link_life: Duration,
    /// Who is told of a new approval.
    pub webhooks: Vec<Webhook>,
    /// The way out for webhooks, under the policy of all calls; without it none is sent.
    pub client: Option<Client>,
}

impl Default for People {
    fn default() -> Self {
        Self { public_url: None, link_life: Duration::from_secs(24 * 3600), webhooks: Vec::new(), client: None }
    }
}

impl People {
    /// The secrets that are needed and not configured, each with what it is for.
    pub(crate) fn missing_secrets(&self, secrets: &dyn Secrets) -> Vec<(String, String)> {
        let mut wanted = Vec::new();
        if self.public_url.is_some() {
            wanted.push((LINK_SECRET.to_owned(), format!("links need a key of at least {MIN_LINK_KEY} bytes")));
        }
        for webhook in &self.webhooks {
            let cannot = || format!("the webhook {:?} can't be told", webhook.name);
            if let WebhookUrl::Secret(name) = &webhook.url {
                wanted.push((name.clone(), cannot()));
            }
            wanted.extend(webhook.secret.iter().map(|name| (name.clone(), cannot())));
        }
        wanted.retain(|(name, _)| match secrets.secret(name) {
            None => true,
            Some(key) => name == LINK_SECRET && key.expose_secret().len() < MIN_LINK_KEY,
        });
        wanted
    }
}

/// Somebody who is told of a new approval.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Webhook {
    /// Its name, under which what is still to be sent is kept.
    pub name: String,
    /// Where it is.
    pub url: WebhookUrl,
    /// What it is sent.
    pub format: WebhookFormat,
    /// The name of the secret that messages are signed with; none means that they are not.
    pub secret: Option<String>,
}

/// The address of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WebhookUrl {
    /// The address itself.
    Plain(String),
    /// The name of a secret that holds it, as Slack's addresses are secrets.
    Secret(String),
}

/// What a webhook is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WebhookFormat {
    /// JSON, signed as Standard Webhooks describes.
    Json,
    /// Blocks, as Slack's incoming webhooks take them.
    Slack,
}
