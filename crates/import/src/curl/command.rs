//! The words of a curl command.

use serde_json::Value;
use toolcrib_definition::json;
use url::Url;

use crate::report::ImportError;

/// Options that say how curl works; those with a value take it along.
const WITHOUT_VALUE: [&str; 24] = [
    "-s",
    "--silent",
    "-S",
    "--show-error",
    "-k",
    "--insecure",
    "-L",
    "--location",
    "-i",
    "--include",
    "-v",
    "--verbose",
    "--compressed",
    "-f",
    "--fail",
    "-g",
    "--globoff",
    "--http1.1",
    "--http2",
    "-N",
    "--no-buffer",
    "-#",
    "--progress-bar",
    "-n",
];
const WITH_VALUE: [&str; 18] = [
    "-o",
    "--output",
    "-m",
    "--max-time",
    "--connect-timeout",
    "--retry",
    "-w",
    "--write-out",
    "-x",
    "--proxy",
    "--cacert",
    "--cert",
    "--key",
    "-c",
    "--cookie-jar",
    "--resolve",
    "--limit-rate",
    "--retry-delay",
];

/// What a command says.
#[derive(Debug, Default)]
pub(super) struct Command {
    method: Option<String>,
    url: Option<String>,
    pub(super) headers: Vec<(String, String)>,
    data: Vec<String>,
    /// Whether it said that its data is JSON.
    json: bool,
    /// Whether its data goes into the query.
    get: bool,
    head: bool,
    pub(super) user: Option<()>,
    /// Options that change nothing of what is sent.
    pub(super) ignored: Vec<String>,
}

/// What is sent.
pub(super) enum Body {
    None,
    /// And whether the command said that it is JSON.
    Json(Value, bool),
    Form(Vec<(String, String)>),
    Text,
}

fn unreadable(reason: impl Into<String>) -> ImportError {
    ImportError::Curl { reason: reason.into() }
}

fn unsupported(reason: impl Into<String>) -> ImportError {
    ImportError::Unsupported { reason: reason.into() }
}

impl Command {
    pub(super) fn read(text: &str) -> Result<Self, ImportError> {
        // A line may be continued, also as a Windows shell does it.
        let text = text.replace("\\\r\n", " ").replace("\\\n", " ").replace("^\r\n", " ").replace("^\n", " ");
        let text = ansi_quotes(&text).ok_or_else(|| unreadable("a quote is not closed; paste the whole command"))?;
        let words = shell_words::split(text.trim())
            .map_err(|_| unreadable("a quote is not closed; paste the whole command"))?;
        let mut words = words.into_iter().peekable();
        match words.next().as_deref() {
            Some("curl" | "curl.exe") => {}
            Some(other) => return Err(unreadable(format!("it begins with {other:?} and not with curl"))),
            None => return Err(unreadable("it is empty")),
        }
        let mut command = Self::default();
        while let Some(word) = words.next() {
            let (option, joined) = parts(&word);
            let mut value = || {
                let value = joined.clone().or_else(|| words.next());
                value.ok_or_else(|| unreadable(format!("{option} has no value")))
            };
            match option.as_str() {
                "-X" | "--request" => command.method = Some(value()?.to_ascii_uppercase()),
                "-H" | "--header" => command.header_line(&value()?),
                "-d" | "--data" | "--data-ascii" | "--data-binary" => {
                    let data = value()?;
                    if data.starts_with('@') {
                        return Err(unsupported("its body is a file; paste the text of the file in its place"));
                    }
                    command.data.push(data);
                }
                "--data-raw" => command.data.push(value()?),
                "--data-urlencode" => command.data.push(url_encoded(&value()?)?),
                "--json" => {
                    command.data.push(value()?);
                    command.json = true;
                }
                "-G" | "--get" => command.get = true,
                "-I" | "--head" => command.head = true,
                "-u" | "--user" => {
                    value()?;
                    command.user = Some(());
                }
                "-b" | "--cookie" => {
                    let cookie = value()?;
                    command.headers.push(("Cookie".to_owned(), cookie));
                }
                "-A" | "--user-agent" | "-e" | "--referer" => drop(value()?),
                "--url" => command.url = Some(value()?),
                "--oauth2-bearer" => {
                    let token = value()?;
                    command.headers.push(("Authorization".to_owned(), format!("Bearer {token}")));
                }
                "-F" | "--form" | "--form-string" => {
                    return Err(unsupported("it sends multipart/form-data, as for files"));
                }
                "-T" | "--upload-file" => return Err(unsupported("it uploads a file")),
                "--next" | "-:" => return Err(unsupported("it makes several requests; paste one")),
                other if WITHOUT_VALUE.contains(&other) => command.ignored.push(option),
                other if WITH_VALUE.contains(&other) => {
                    value()?;
                    command.ignored.push(option);
                }
                other if other.len() > 1 && other.starts_with('-') => command.short_flags(other)?,
                _ => {
                    if command.url.is_some() {
                        return Err(unsupported("it has more than one address; paste one request"));
                    }
                    command.url = Some(word);
                }
            }
        }
        Ok(command)
    }

    /// Several letters in one word, as in `-sSL`.
    fn short_flags(&mut self, word: &str) -> Result<(), ImportError> {
        let known = |letter: char| WITHOUT_VALUE.contains(&format!("-{letter}").as_str());
        if word.starts_with("--") || !word[1..].chars().all(known) {
            return Err(unreadable(format!(
                "the option {word} is not known here; leave it out if it does not change what is sent"
            )));
        }
        self.ignored.push(word.to_owned());
        Ok(())
    }

    fn header_line(&mut self, line: &str) {
        // A header without a value is one that curl takes away.
        if let Some((name, value)) = line.split_once(':')
            && !value.trim().is_empty()
        {
            self.headers.push((name.trim().to_owned(), value.trim().to_owned()));
        }
    }

    pub(super) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    pub(super) fn method(&self) -> String {
        match &self.method {
            Some(method) => method.clone(),
            None if self.head => "HEAD".to_owned(),
            None if self.data.is_empty() || self.get => "GET".to_owned(),
            None => "POST".to_owned(),
        }
    }

    pub(super) fn url(&self) -> Result<Url, ImportError> {
        let written = self.url.as_deref().ok_or_else(|| unreadable("it names no address"))?;
        // curl takes http where nothing is said; what a tool calls is better asked for in the open.
        let whole = if written.contains("://") { written.to_owned() } else { format!("https://{written}") };
        let mut url = Url::parse(&whole).map_err(|error| unreadable(format!("the address {written:?}: {error}")))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(unsupported(format!("it uses {}, and a tool speaks HTTP", url.scheme())));
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(unsupported("its address holds a user or a password; use a header in their place"));
        }
        if self.get {
            let more = self.data.join("&");
            let query = [url.query().unwrap_or_default(), more.as_str()]
                .into_iter()
                .filter(|part| !part.is_empty())
                .collect::<Vec<_>>()
                .join("&");
            url.set_query(Some(&query));
        }
        Ok(url)
    }

    pub(super) fn body(&self) -> Result<Body, ImportError> {
        if self.data.is_empty() || self.get {
            return Ok(Body::None);
        }
        let media = self.header("content-type").map(str::to_ascii_lowercase);
        let said = self.json || media.as_deref().is_some_and(|media| media.contains("json"));
        let whole = if self.json { self.data.concat() } else { self.data.join("&") };
        match json::parse(whole.as_bytes()) {
            Ok(value) if said || matches!(value, Value::Object(_) | Value::Array(_)) => {
                return Ok(Body::Json(value, said));
            }
            Err(error) if said => return Err(unreadable(format!("the body says that it is JSON, and {error}"))),
            _ => {}
        }
        // What follows a semicolon says how the text is written, and not what it is.
        match media.as_deref().and_then(|media| media.split(';').next()).map(str::trim) {
            None | Some("application/x-www-form-urlencoded") => {
                let pairs = url::form_urlencoded::parse(whole.as_bytes());
                Ok(Body::Form(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect()))
            }
            Some(_) => Ok(Body::Text),
        }
    }
}

/// The command with its `$'…'` as plain quotes: what browsers write where a text holds quotes or line breaks. None when one
/// is not closed.
fn ansi_quotes(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    let mut quote = None;
    let mut begins = true;
    while let Some(ch) = chars.next() {
        if quote.is_none() && begins && ch == '$' && chars.next_if_eq(&'\'').is_some() {
            out.push_str(&shell_words::quote(&ansi_text(&mut chars)?));
            begins = false;
            continue;
        }
        out.push(ch);
        match (quote, ch) {
            (None, '\'' | '"') => quote = Some(ch),
            (Some(open), _) if open == ch => quote = None,
            // What a backslash escapes outside single quotes ends nothing.
            (None | Some('"'), '\\') => out.extend(chars.next()),
            _ => {}
        }
        begins = quote.is_none() && (ch.is_whitespace() || ch == '=');
    }
    Some(out)
}

/// The text up to the quote that ends it, its escapes read as a shell reads them.
fn ansi_text(chars: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<String> {
    let mut text = String::new();
    loop {
        let ch = match chars.next()? {
            '\'' => return Some(text),
            '\\' => chars.next()?,
            plain => {
                text.push(plain);
                continue;
            }
        };
        let digits = match ch {
            'x' => 2,
            'u' => 4,
            'U' => 8,
            _ => 0,
        };
        if digits > 0 {
            let mut code = String::new();
            while code.len() < digits
                && let Some(digit) = chars.next_if(char::is_ascii_hexdigit)
            {
                code.push(digit);
            }
            text.extend(u32::from_str_radix(&code, 16).ok().and_then(char::from_u32));
            continue;
        }
        text.push(match ch {
            'n' => '\n',
            't' => '\t',
            'r' => '\r',
            'a' => '\u{7}',
            'b' => '\u{8}',
            'e' | 'E' => '\u{1b}',
            'f' => '\u{c}',
            'v' => '\u{b}',
            other => other,
        });
    }
}

/// An option, and the value that is written in the same word.
fn parts(word: &str) -> (String, Option<String>) {
    if let Some(long) = word.strip_prefix("--") {
        return match long.split_once('=') {
            Some((name, value)) => (format!("--{name}"), Some(value.to_owned())),
            None => (word.to_owned(), None),
        };
    }
    let takes = |letter: char| "XHdubAeFToxmcw".contains(letter);
    match word.strip_prefix('-').and_then(|rest| rest.chars().next()) {
        Some(letter) if takes(letter) && word.len() > 2 => {
            (word[..2].to_owned(), Some(word[2..].trim_start_matches('=').to_owned()))
        }
        _ => (word.to_owned(), None),
    }
}

/// `name=text` with the text encoded, as curl does it.
fn url_encoded(data: &str) -> Result<String, ImportError> {
    if data.contains('@') && !data.contains('=') {
        return Err(unsupported("its body is a file; paste the text of the file in its place"));
    }
    let (name, text) = data.split_once('=').unwrap_or(("", data));
    let encoded: String = url::form_urlencoded::byte_serialize(text.as_bytes()).collect();
    Ok(if name.is_empty() { encoded } else { format!("{name}={encoded}") })
}
