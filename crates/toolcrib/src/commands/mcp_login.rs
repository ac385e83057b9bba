//! `toolcrib mcp login`: a token for an MCP server, by way of a browser. It is printed, or written where
//! secrets are read from, and never into a row.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use async_trait::async_trait;
use clap::Args;
use http::Method;
use secrecy::ExposeSecret;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::time::Instant;
use toolcrib_definition::NoSecrets;
use toolcrib_mcp_ingest::{Authorizer, ClientIdentity, Endpoint, McpClient, McpError, McpServer, OAuth, UserAgent};

use super::segment;
use crate::compose;
use crate::config::Config;
use crate::connection::Connection;

/// How long a person may take in the browser.
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Debug, Args)]
pub(crate) struct LoginArgs {
    /// The server
    name: String,
    /// The client id, when one was registered beforehand
    #[arg(long)]
    client_id: Option<String>,
    /// The file that holds the client's secret
    #[arg(long, requires = "client_id")]
    client_secret_file: Option<PathBuf>,
    /// Write the token into this folder of secrets, under the name that the server's header refers to
    #[arg(long, value_name = "FOLDER")]
    save: Option<PathBuf>,
}

impl LoginArgs {
    pub(crate) async fn run(self, config: &Config, api: &Connection) -> anyhow::Result<()> {
        let answer = api.send(Method::GET, &format!("/v1/mcp/servers/{}", segment(&self.name)), None).await?;
        let server = McpServer::from_value(&answer["server"])?;
        let secret = secret_of(&server).with_context(|| {
            format!(
                "the server {0} has no Authorization header with a secret; write it with --header \"Authorization: \
                     Bearer {{{{secret.{0}}}}}\"",
                self.name
            )
        })?;
        // Without the header, the server says what it wants.
        let bare = McpServer { headers: serde_json::Map::new(), ..server };
        let http = compose::egress(config, config.limits())?;
        let client = McpClient::new(http.clone());
        let endpoint = Endpoint::of_server(&bare, client.policy(), &NoSecrets)?;
        let deadline = Instant::now() + PATIENCE;
        let challenge = match client.tools(&endpoint, deadline).await.map_err(|failure| failure.error) {
            Err(McpError::Auth { challenge, .. }) => challenge,
            Err(error) => return Err(error.into()),
            Ok(_) => bail!("the server {} wants no token", self.name),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.context("no port for the browser to come back to")?;
        let client_secret = match &self.client_secret_file {
            Some(file) => Some(read_secret(file)?),
            None => None,
        };
        let identity = ClientIdentity {
            client_id: self.client_id.clone(),
            client_secret: client_secret.map(Into::into),
            metadata_document: None,
        };
        let oauth = OAuth::new(identity, Arc::new(Browser { port: listener.local_addr()?.port(), listener }));
        let token = oauth.token(&http, &endpoint.target.uri().to_string(), &challenge, deadline).await?;
        match &self.save {
            Some(folder) => {
                let path = folder.join(&secret);
                write_secret(&path, token.expose_secret())?;
                println!("the token is in {}; a server reads it again at SIGHUP", path.display());
            }
            None => {
                eprintln!("set TOOLCRIB_SECRET_{} to this token:", secret.to_ascii_uppercase());
                println!("{}", token.expose_secret());
            }
        }
        Ok(())
    }
}

/// The secret that the Authorization header refers to.
fn secret_of(server: &McpServer) -> Option<String> {
    let (_, value) = server.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("authorization"))?;
    let text = value.as_str()?;
    let (_, rest) = text.split_once("{{")?;
    let (inside, _) = rest.split_once("}}")?;
    inside.trim().strip_prefix("secret.").map(str::to_owned)
}

fn read_secret(file: &Path) -> anyhow::Result<String> {
    let text = std::fs::read_to_string(file).with_context(|| format!("{} can't be read", file.display()))?;
    Ok(text.trim().to_owned())
}

/// Writes a file that only its owner can read.
fn write_secret(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create(true).truncate(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(path).with_context(|| format!("{} can't be written", path.display()))?;
    Ok(file.write_all(text.as_bytes())?)
}

/// The person's browser, which comes back to a port of this machine (RFC 8252).
struct Browser {
    port: u16,
    listener: TcpListener,
}

#[async_trait]
impl UserAgent for Browser {
    fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}/callback", self.port)
    }

    async fn visit(&self, url: &str, deadline: Instant) -> Result<String, String> {
        eprintln!("open this address in a browser, and agree:\n\n  {url}\n");
        let waiting = async {
            loop {
                let (mut stream, _) = self.listener.accept().await.map_err(|error| error.to_string())?;
                let mut head = vec![0; 16 << 10];
                let read = stream.read(&mut head).await.map_err(|error| error.to_string())?;
                let head = String::from_utf8_lossy(&head[..read]);
                let path = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
                let is_ours = path.starts_with("/callback?");
                let words = if is_ours { "Thank you. This page can be closed." } else { "Not found." };
                let status = if is_ours { "200 OK" } else { "404 Not Found" };
                let length = words.len();
                let answer = format!(
                    "HTTP/1.1 {status}\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{words}"
                );
                // The browser may be gone already; its address is what counts.
                let _ = stream.write_all(answer.as_bytes()).await;
                if is_ours {
                    return Ok(format!("http://127.0.0.1:{}{path}", self.port));
                }
            }
        };
        tokio::time::timeout_at(deadline, waiting).await.map_err(|_| "nobody agreed in time".to_owned())?
    }
}
